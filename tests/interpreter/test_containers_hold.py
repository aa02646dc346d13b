"""Objects held by attributes and containers of every kind."""

from __future__ import annotations

import collections
import itertools
import queue
import types
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from heap_world import Box, Pair, Slotted, Suspect, ask, chain, links

KEEP: dict[str, Any] = {}
GLOBAL: list[Any] = []
FIRST = ("module global", "KEEP", "dict")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    KEEP.clear()
    GLOBAL.clear()


def test_module_global() -> None:
    GLOBAL.append(Suspect())
    answer = ask(id(GLOBAL[0]))
    assert links(answer) == [("module global", "GLOBAL", "list"), ("item", None, "Suspect")]
    assert answer["root"] == f"module global {__name__}.GLOBAL"
    assert answer["retained_by"][0]["file"] == __file__


def test_attribute_stored_in_the_instance() -> None:
    KEEP["b"] = Box()
    KEEP["b"].kept = Suspect()
    address = id(KEEP["b"].kept)
    assert chain(address) == [FIRST, ("item", "b", "Box"), ("attribute", "kept", "Suspect")]


def test_attribute_stored_in_a_dictionary() -> None:
    KEEP["b"] = Box()
    KEEP["b"].__dict__["kept"] = Suspect()
    address = id(KEEP["b"].kept)
    assert chain(address) == [FIRST, ("item", "b", "Box"), ("attribute", "kept", "Suspect")]


def test_attribute_in_a_slot() -> None:
    KEEP["s"] = Slotted()
    KEEP["s"].kept = Suspect()
    address = id(KEEP["s"].kept)
    assert chain(address) == [FIRST, ("item", "s", "Slotted"), ("attribute", "kept", "Suspect")]


def test_class_attribute() -> None:
    class Holder:
        kept = Suspect()

    KEEP["c"] = Holder
    address = id(Holder.kept)
    assert chain(address)[-1] == ("class attribute", "kept", "Suspect")


def test_dictionary_key() -> None:
    suspect = Suspect()
    KEEP["d"] = {suspect: 1}
    address = id(suspect)
    del suspect
    assert chain(address) == [FIRST, ("item", "d", "dict"), ("key", None, "Suspect")]


NO_NAMES = [3, (3, "x"), None, 2.5, "two words", "sk-proj-9f8a7b6c5d4e3f2a1b0c", "a" * 100]


@pytest.mark.parametrize("key", NO_NAMES)
def test_keys_that_are_no_names_are_not_shown(key: Any) -> None:
    KEEP["d"] = {key: Suspect()}
    answer = ask(id(KEEP["d"][key]))
    assert links(answer) == [FIRST, ("item", "d", "dict"), ("item", None, "Suspect")]
    assert "sk-proj" not in repr(answer)


def test_set_member() -> None:
    suspect = Suspect()
    KEEP["s"] = {suspect}
    address = id(suspect)
    del suspect
    assert chain(address) == [FIRST, ("item", "s", "set"), ("key", None, "Suspect")]


def test_deque() -> None:
    KEEP["q"] = collections.deque([1, Suspect()], maxlen=5)
    answer = ask(id(KEEP["q"][1]))
    assert links(answer) == [FIRST, ("item", "q", "deque"), ("item", None, "Suspect")]
    assert answer["holder"] == 1
    assert answer["container"] == {"type": "deque", "length": 2, "limit": 5}


def test_tuple_and_namedtuple() -> None:
    KEEP["t"] = (1, Suspect())
    KEEP["p"] = Pair(1, Suspect())
    address = id(KEEP["t"][1])
    assert chain(address) == [FIRST, ("item", "t", "tuple"), ("item", None, "Suspect")]
    address = id(KEEP["p"].right)
    assert chain(address) == [FIRST, ("item", "p", "Pair"), ("attribute", "right", "Suspect")]


def test_ordered_dict() -> None:
    KEEP["o"] = collections.OrderedDict(a=Suspect())
    address = id(KEEP["o"]["a"])
    assert chain(address) == [FIRST, ("item", "o", "OrderedDict"), ("item", "a", "Suspect")]


def test_mapping_proxy() -> None:
    KEEP["p"] = types.MappingProxyType({"k": Suspect()})
    found = chain(id(KEEP["p"]["k"]))
    assert found[1] == ("item", "p", "mappingproxy")
    assert found[-1] == ("item", "k", "Suspect")


def test_simple_queue() -> None:
    KEEP["q"] = queue.SimpleQueue()
    suspect = Suspect()
    address = id(suspect)
    KEEP["q"].put(suspect)
    del suspect
    assert chain(address) == [FIRST, ("item", "q", "SimpleQueue"), ("item", None, "Suspect")]


def test_queue_declares_the_limit_of_its_deque() -> None:
    KEEP["q"] = queue.Queue(maxsize=9)
    KEEP["q"].put(Suspect())
    answer = ask(id(KEEP["q"].queue[0]))
    assert links(answer) == [
        FIRST,
        ("item", "q", "Queue"),
        ("attribute", "queue", "deque"),
        ("item", None, "Suspect"),
    ]
    assert answer["container"] == {"type": "deque", "length": 1, "limit": 9}


def test_itertools_cycle() -> None:
    KEEP["it"] = itertools.cycle([Suspect()])
    next(KEEP["it"])
    address = id(next(KEEP["it"]))
    found = chain(address)
    assert found[1] == ("item", "it", "cycle")
    assert found[-1] == ("item", None, "Suspect")


def test_tee() -> None:
    KEEP["a"], KEEP["b"] = itertools.tee([Suspect(), 2])
    address = id(next(KEEP["a"]))
    found = chain(address)
    assert found[1][2] == "_tee"
    assert found[-1][2] == "Suspect"


def test_weak_references_hold_nothing() -> None:
    suspect = Suspect()
    address = id(suspect)
    KEEP["w"] = weakref.ref(suspect)
    GLOBAL.append(suspect)
    del suspect
    assert chain(address) == [("module global", "GLOBAL", "list"), ("item", None, "Suspect")]
    GLOBAL.clear()
    assert KEEP["w"]() is None


def test_callback_of_a_weak_reference() -> None:
    def make(big: Suspect) -> Any:
        return lambda _: big

    box, suspect = Box(), Suspect()
    address = id(suspect)
    KEEP["w"] = weakref.ref(box, make(suspect))
    del suspect
    assert chain(address)[1:] == [
        ("item", "w", "ReferenceType"),
        ("attribute", "__callback__", "function"),
        ("closure", "big", "Suspect"),
    ]


def test_value_of_a_weak_key_dictionary_that_refers_to_its_key() -> None:
    table: Any = weakref.WeakKeyDictionary()
    KEEP["w"] = table
    key, value = Suspect(), Box()
    value.back = key  # type: ignore[attr-defined]
    table[key] = value
    address = id(key)
    del table, key, value
    assert chain(address) == [
        FIRST,
        ("item", "w", "WeakKeyDictionary"),
        ("attribute", "data", "dict"),
        ("item", None, "Box"),
        ("attribute", "back", "Suspect"),
    ]


def test_list_and_its_subclass_with_attributes() -> None:
    class Bag(list[Any]):
        pass

    KEEP["bag"] = Bag([Suspect()])
    KEEP["bag"].extra = Suspect()
    address = id(KEEP["bag"][0])
    assert chain(address)[-1] == ("item", None, "Suspect")
    address = id(KEEP["bag"].extra)
    assert chain(address)[-1] == ("attribute", "extra", "Suspect")
