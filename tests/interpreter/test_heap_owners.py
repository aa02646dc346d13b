"""Several holders of one object, the asker's own frames, and what C code holds."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import _heap
import pytest
from heap_world import Box, Suspect, ask, links

FIRST: list[Any] = []
SECOND: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    FIRST.clear()
    SECOND.clear()


def test_every_owner_is_named_once() -> None:
    suspect = Suspect()
    FIRST.append([suspect])
    SECOND["x"] = suspect
    address = id(suspect)
    del suspect
    answer = ask(address, most_owners=4)
    roots = {answer["root"], *(owner["root"] for owner in answer["other_owners"])}
    assert roots == {f"module global {__name__}.FIRST", f"module global {__name__}.SECOND"}
    assert len(answer["other_owners"]) == 1


def test_owner_that_also_owns_another_suspect() -> None:
    both, one = Suspect(), Suspect()
    FIRST.append(both)
    SECOND["x"] = {"kept": [both, one]}
    addresses = [id(both), id(one)]
    del both, one
    answers = _heap.walk(addresses, most_owners=4)["suspects"]
    assert {answers[0]["root"], *(owner["root"] for owner in answers[0]["other_owners"])} == {
        f"module global {__name__}.FIRST",
        f"module global {__name__}.SECOND",
    }
    assert answers[1]["root"] == f"module global {__name__}.SECOND"
    assert answers[1]["other_owners"] == []


def test_two_names_for_one_list_are_one_owner() -> None:
    SECOND["a"] = [Suspect()]
    SECOND["b"] = SECOND["a"]
    address = id(SECOND["a"][0])
    assert ask(address, most_owners=4)["other_owners"] == []


def test_frames_of_the_asker_are_muted() -> None:
    def report(box: list[Any], muted_frames: int) -> str:
        mine = box.pop()
        address = id(mine)
        status: str = ask(address, muted_frames=muted_frames)["status"]
        box.append(mine)
        return status

    assert report([Suspect()], 0) == "rooted"
    assert report([Suspect()], 1) == "rooted"
    assert report([Suspect()], 2) == "own"


def test_reference_held_by_c_code() -> None:
    suspect = Box()
    suspect.inner = Suspect()  # type: ignore[attr-defined]
    address = id(suspect.inner)  # type: ignore[attr-defined]
    reference = ctypes.py_object(suspect)
    ctypes.pythonapi.Py_IncRef(reference)
    del reference
    outer = id(suspect)
    del suspect
    answer = ask(address)
    assert answer["status"] == "native"
    assert answer["root"] == "native reference"
    assert links(answer) == [("native", None, "Box"), ("attribute", "inner", "Suspect")]
    ctypes.pythonapi.Py_DecRef(ctypes.cast(outer, ctypes.py_object))


def test_unknown_address() -> None:
    answer = ask(0x1000)
    assert answer["status"] == "not-found"
    assert answer["retained_by"] == []


def test_group_finds_the_container_all_have_in_common() -> None:
    for _ in range(3):
        FIRST.append({"inner": [Suspect()]})
    addresses = [id(entry["inner"][0]) for entry in FIRST]
    alone = _heap.walk(addresses)["suspects"]
    together = _heap.walk(addresses, groups=[1, 1, 1])["suspects"]
    assert [suspect["container"]["length"] for suspect in alone] == [1, 1, 1]
    assert [suspect["container"]["length"] for suspect in together] == [3, 3, 3]
    assert [suspect["holder"] for suspect in together] == [0, 0, 0]


def together(*suspects: int) -> list[Any]:
    answers: list[Any] = _heap.walk(list(suspects), groups=[1] * len(suspects))["suspects"]
    return answers


def held_in(answer: dict[str, Any]) -> tuple[str, str | None]:
    link = answer["retained_by"][answer["holder"]]
    return link["edge"], link["name"]


def test_group_in_a_chain_of_records_is_held_by_the_newest() -> None:
    newest: Any = None
    for _ in range(9):
        record = Box()
        record.previous, record.kept = newest, Suspect()  # type: ignore[attr-defined]
        newest = record
    SECOND["newest"] = newest.previous
    addresses = []
    while newest.previous is not None:
        newest = newest.previous
        addresses.append(id(newest.kept))
    del newest, record
    holders = {held_in(answer) for answer in together(*addresses)}
    assert holders == {("item", "newest")}


def test_group_in_attributes_of_their_own_is_held_by_the_object() -> None:
    model = Box()
    for step in range(4):
        setattr(model, f"output_{step}", Suspect())
    answers = together(*map(id, vars(model).values()))
    assert {held_in(answer) for answer in answers} == {("local", "model")}


def test_group_in_a_tuple_that_is_replaced_by_longer_ones() -> None:
    box = Box()
    box.kept = tuple(Suspect() for _ in range(3))  # type: ignore[attr-defined]
    answers = together(*map(id, box.kept))  # type: ignore[attr-defined]
    assert [answer["container"] for answer in answers] == [{"type": "tuple", "length": 3, "limit": None}] * 3
    assert {held_in(answer) for answer in answers} == {("attribute", "kept")}


@pytest.mark.parametrize(("empty", "length", "limit"), [(0, 3, None), (1, 3, None), (5, 3, 8)])
def test_list_made_in_advance_declares_its_length(empty: int, length: int, limit: int | None) -> None:
    FIRST.extend([Suspect() for _ in range(3)] + [None] * empty)
    container = ask(id(FIRST[0]))["container"]
    assert container["limit"] == limit
    assert container["length"] == length


def test_array_of_objects_made_in_advance_declares_its_size() -> None:
    numpy = pytest.importorskip("numpy")
    SECOND["array"] = numpy.empty(6, dtype=object)
    SECOND["array"][:3] = [Suspect() for _ in range(3)]
    addresses = [id(SECOND["array"][i]) for i in range(3)]
    filling, full = (
        {"type": "ndarray", "length": 3, "limit": 6},
        {"type": "ndarray", "length": 3, "limit": None},
    )
    assert [answer["container"] for answer in together(*addresses)] == [filling] * 3
    SECOND["array"] = SECOND["array"][:3].copy()
    assert [answer["container"] for answer in together(*addresses)] == [full] * 3


class Meter:
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def update(self) -> None: ...


class Metric(Meter):
    def reset(self) -> None: ...


@pytest.mark.parametrize("kind", [Meter, Metric])
def test_object_that_can_be_reset_is_told(kind: type[Meter]) -> None:
    SECOND["metric"] = kind()
    SECOND["metric"].kept.append(Suspect())
    assert ask(id(SECOND["metric"].kept[0]))["owner_resets"] is (kind is Metric)
