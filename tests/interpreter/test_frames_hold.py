"""Objects held by running frames, by suspended ones and by the value stack."""

from __future__ import annotations

import os
import types
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import _heap
from heap_world import Suspect, ask, chain, in_another_thread, links

KEEP: dict[str, Any] = {}
HERE = os.path.basename(__file__)


def line_of(function: Any, offset: int) -> int:
    return function.__code__.co_firstlineno + offset


def test_local_list() -> None:
    keep = [Suspect()]
    answer = ask(id(keep[0]))
    assert links(answer) == [("local", "keep", "list"), ("item", None, "Suspect")]
    line = line_of(test_local_list, 1)
    assert answer["root"] == f"local 'keep' in test_local_list() at {HERE}:{line}"
    assert answer["retained_by"][0]["file"].endswith(HERE)
    assert answer["retained_by"][0]["line"] == line
    assert answer["retained_by"][0]["detail"] == "1 item"


def test_argument_is_found_at_the_def() -> None:
    def keeper(mine: Any) -> None:
        answer = ask(address)
        assert links(answer) == [("local", "mine", "Suspect")]
        assert answer["root"] == f"local 'mine' in keeper() at {HERE}:{line_of(keeper, 0)}"

    def make() -> Any:
        nonlocal address
        suspect = Suspect()
        address = id(suspect)
        return suspect

    address = 0
    keeper(make())


def test_local_of_the_caller() -> None:
    def inner(address: int) -> list[Any]:
        return chain(address)

    mine = {"a": (1, Suspect())}
    address = id(mine["a"][1])
    assert inner(address) == [
        ("local", "mine", "dict"),
        ("item", "a", "tuple"),
        ("item", None, "Suspect"),
    ]


def test_variable_shared_with_a_closure() -> None:
    shared = [Suspect()]

    def reader() -> Any:
        return shared

    address = id(shared[0])
    assert chain(address) == [("local", "shared", "list"), ("item", None, "Suspect")]
    assert reader() is shared


def test_a_local_that_was_bound_anew_is_gone() -> None:
    suspect: Any = Suspect()
    address, dead = id(suspect), weakref.ref(suspect)
    _heap.walk([address])
    suspect = None
    assert dead() is None


def test_local_of_another_thread() -> None:
    def work(pause: Any) -> None:
        theirs = [Suspect()]
        pause(id(theirs[0]))

    with in_another_thread(work) as address:
        answer = ask(address)
    assert links(answer) == [("local", "theirs", "list"), ("item", None, "Suspect")]
    assert answer["root"] == f"local 'theirs' in work() at {HERE}:{line_of(work, 1)}, thread 'worker-7'"
    assert answer["root_parts"]["thread"] == "worker-7"


def test_iterator_of_a_for_loop() -> None:
    addresses = []

    def make() -> Suspect:
        suspect = Suspect()
        addresses.append(id(suspect))
        return suspect

    for _ in map(str, [make(), 1]):
        found = chain(addresses[0])
        break
    assert [link[0] for link in found] == ["temporary", "reference", "item", "reference", "item"]
    assert [link[2] for link in found] == ["map", "tuple", "list_iterator", "list", "Suspect"]


def test_argument_of_a_call_in_progress() -> None:
    addresses = []

    def make() -> Suspect:
        suspect = Suspect()
        addresses.append(id(suspect))
        return suspect

    answer = (lambda _, found: found)(make(), ask(addresses[0]))
    assert links(answer) == [("temporary", None, "Suspect")]
    assert answer["root"].startswith("temporary in test_argument_of_a_call_in_progress() at ")


def test_suspended_generator() -> None:
    def generate() -> Iterator[Any]:
        inside = Suspect()
        yield id(inside)
        yield inside

    KEEP["g"] = generate()
    address = next(KEEP["g"])
    answer = ask(address)
    KEEP.clear()
    assert links(answer) == [
        ("module global", "KEEP", "dict"),
        ("item", "g", "generator"),
        ("local", "inside", "Suspect"),
    ]
    assert answer["retained_by"][1]["detail"] == "generate"
    assert answer["retained_by"][2]["line"] == line_of(generate, 1)


def test_running_generator() -> None:
    def generate() -> Iterator[Any]:
        inside = [Suspect()]
        yield chain(id(inside[0]))

    assert next(generate()) == [("local", "inside", "list"), ("item", None, "Suspect")]


def test_suspended_coroutine() -> None:
    @types.coroutine
    def pause() -> Iterator[int]:
        yield 1

    async def work() -> Any:
        inside = Suspect()
        addresses.append(id(inside))
        await pause()
        return inside

    addresses: list[int] = []
    KEEP["c"] = work()
    KEEP["c"].send(None)
    found = chain(addresses[0])
    KEEP["c"].close()
    KEEP.clear()
    assert found == [
        ("module global", "KEEP", "dict"),
        ("item", "c", "coroutine"),
        ("local", "inside", "Suspect"),
    ]


def test_async_generator() -> None:
    async def generate() -> AsyncIterator[Any]:
        inside = Suspect()
        addresses.append(id(inside))
        yield 1
        yield inside

    addresses: list[int] = []
    KEEP["a"] = generate()
    try:
        KEEP["a"].asend(None).send(None)
    except StopIteration:
        pass
    found = chain(addresses[0])
    KEEP.clear()
    assert found == [
        ("module global", "KEEP", "dict"),
        ("item", "a", "async_generator"),
        ("local", "inside", "Suspect"),
    ]


def test_namespace_given_to_exec() -> None:
    namespace = {"__builtins__": __builtins__, "Suspect": Suspect, "found": [], "chain": chain}
    exec("kept = Suspect()\nfound += chain(id(kept))", namespace)
    assert namespace["found"][-1][2] == "Suspect"
    assert namespace["found"][-1][1] == "kept"
