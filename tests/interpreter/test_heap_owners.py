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
