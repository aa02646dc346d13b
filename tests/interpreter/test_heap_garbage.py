"""Objects that nothing reaches: the cycle, its generation, and whether the collector will free it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from heap_world import Box, Suspect, ask, links


@pytest.fixture(autouse=True)
def collector_waits() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


def ring(*names: str) -> Any:
    """Boxes that hold each other in a ring; the first one is given."""
    boxes: list[Any] = [Box() for _ in names]
    for name, box, following in zip(names, boxes, boxes[1:] + boxes[:1], strict=True):
        setattr(box, name, following)
    return boxes[0]


def test_cycle_and_the_way_from_it() -> None:
    first = ring("right", "left")
    first.kept = [Suspect()]
    address, dead = id(first.kept[0]), weakref.ref(first.kept[0])
    del first
    answer = ask(address)
    assert answer["status"] == "garbage"
    assert answer["root"] == "garbage cycle"
    assert links(answer) == [
        ("cycle", None, "Box"),
        ("attribute", "right", "Box"),
        ("attribute", "left", "Box"),
        ("attribute", "kept", "list"),
        ("item", None, "Suspect"),
    ]
    assert answer["garbage"] == {"cycle_links": 3, "collectable": True, "generation": 0}
    gc.collect()
    assert dead() is None


def test_object_that_refers_to_itself() -> None:
    batch: Any = Box()
    batch.parent = batch
    batch.kept = Suspect()
    address = id(batch.kept)
    del batch
    answer = ask(address)
    assert links(answer) == [
        ("cycle", None, "Box"),
        ("attribute", "parent", "Box"),
        ("attribute", "kept", "Suspect"),
    ]
    assert answer["garbage"]["cycle_links"] == 2


def test_suspect_on_the_cycle_itself() -> None:
    suspect = Suspect()
    suspect.other = [suspect]
    address = id(suspect)
    del suspect
    assert links(ask(address)) == [
        ("cycle", None, "Suspect"),
        ("attribute", "other", "list"),
        ("item", None, "Suspect"),
    ]


def test_long_chain_behind_a_cycle() -> None:
    head: Any = ring("a", "b", "c")
    link: Any = Suspect()
    address = id(link)
    for _ in range(100_000):
        link = [link]
    head.kept = link
    del head, link
    answer = ask(address)
    assert answer["status"] == "garbage"
    assert links(answer) == [
        ("cycle", None, "Box"),
        ("attribute", "a", "Box"),
        ("attribute", "b", "Box"),
        ("attribute", "c", "Box"),
        ("attribute", "kept", "list"),
        ("item", None, "list"),
        ("item", None, "Suspect"),
    ]
    assert [link["count"] for link in answer["retained_by"]] == [1, 1, 1, 1, 1, 99_999, 1]
    assert answer["garbage"]["collectable"] is True


def test_generation_it_has_grown_into() -> None:
    holder = ring("a", "b")
    holder.kept = Suspect()
    address = id(holder.kept)
    gc.collect()
    del holder
    assert ask(address)["garbage"]["generation"] == 2


def test_frozen_garbage_is_never_freed() -> None:
    holder = ring("a", "b")
    holder.kept = Suspect()
    address, dead = id(holder.kept), weakref.ref(holder.kept)
    del holder
    gc.freeze()
    try:
        answer = ask(address)
        gc.collect()
        assert dead() is not None
    finally:
        gc.unfreeze()
    assert answer["garbage"] == {"cycle_links": 3, "collectable": False, "generation": 3}
