"""The walk changes nothing, runs nothing of the user's, and survives hostile objects."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

import _heap
import pytest
from heap_world import Box, Suspect, ask, chain

KEEP: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    KEEP.clear()


class Hostile:
    """Every way in which looking at an object could run its code."""

    called: ClassVar[list[str]] = []

    def __getattribute__(self, name: str) -> Any:
        Hostile.called.append(name)
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        Hostile.called.append("__eq__")
        return True

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        Hostile.called.append("__repr__")
        return "x"

    def __len__(self) -> int:
        Hostile.called.append("__len__")
        return 1 << 40

    @property
    def __class__(self) -> type:  # type: ignore[override]
        Hostile.called.append("__class__")
        return int


def test_no_user_code_runs() -> None:
    hostile, suspect = Hostile(), Suspect()
    address = id(suspect)
    object.__setattr__(hostile, "kept", suspect)
    KEEP["n"] = {hostile: hostile, "l": [hostile, hostile]}
    del suspect, hostile
    Hostile.called.clear()
    found = chain(address)
    called = list(Hostile.called)
    assert called == []
    assert found[2] in [("key", None, "Hostile"), ("item", None, "Hostile")]
    assert found[3:] == [("attribute", "kept", "Suspect")]


def test_counts_and_collector_are_as_before() -> None:
    suspect = Suspect()
    KEEP["s"] = [suspect]
    address = id(suspect)
    _heap.walk([address])
    counts = (sys.getrefcount(suspect), sys.getrefcount(KEEP["s"]), sys.getrefcount(Suspect))
    objects = len(gc.get_objects())
    for _ in range(5):
        _heap.walk([address])
    assert (sys.getrefcount(suspect), sys.getrefcount(KEEP["s"]), sys.getrefcount(Suspect)) == counts
    assert len(gc.get_objects()) == objects
    dead = weakref.ref(suspect)
    KEEP.clear()
    del suspect
    assert dead() is None


@pytest.mark.parametrize("enabled", [True, False])
def test_collector_is_left_as_it_was(enabled: bool) -> None:
    try:
        (gc.enable if enabled else gc.disable)()
        assert _heap.walk([])["statistics"]["collector_enabled"] is enabled
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_nothing_is_collected_meanwhile() -> None:
    gc.collect()
    before = gc.get_stats()
    _heap.walk([])
    assert gc.get_stats() == before


def test_no_instance_dictionary_is_made() -> None:
    box = Box()
    box.kept = Suspect()  # type: ignore[attr-defined]
    KEEP["b"] = box
    address = id(box.kept)  # type: ignore[attr-defined]
    shown = len(gc.get_referents(box))
    chain(address)
    assert len(gc.get_referents(box)) == shown
    assert not any(isinstance(item, dict) for item in gc.get_referents(box))


def test_locals_are_read_without_a_snapshot() -> None:
    kept: Any = Suspect()
    address, dead = id(kept), weakref.ref(kept)
    chain(address)
    kept = None
    assert dead() is None


def test_chain_of_100_000_links() -> None:
    link: Any = Suspect()
    address = id(link)
    for _ in range(100_000):
        link = (link,)
    KEEP["deep"] = link
    del link
    assert len(chain(address)) == 100_002


def test_huge_containers() -> None:
    suspect = Suspect()
    KEEP["list"] = [None] * 2_000_000
    KEEP["list"][1_999_999] = [suspect]
    KEEP["dict"] = dict.fromkeys(range(200_000))
    KEEP["dict"][199_999] = Box()
    KEEP["dict"][199_999].kept = suspect
    address = id(suspect)
    del suspect
    answer = ask(address, most_owners=3)
    ends = [answer["retained_by"][-1]["edge"], answer["other_owners"][0]["retained_by"][-1]["edge"]]
    assert sorted(ends) == ["attribute", "item"]


def test_dead_weak_proxy_on_the_way() -> None:
    target = Box()
    KEEP["p"] = [weakref.proxy(target), Suspect()]
    del target
    address = id(KEEP["p"][1])
    assert chain(address)[-1] == ("item", None, "Suspect")


def test_accounting_closes_in_a_busy_interpreter() -> None:
    import asyncio
    import concurrent.futures
    import dataclasses
    import decimal
    import enum
    import json
    import logging
    import re
    import typing
    import unittest.mock

    KEEP["modules"] = [asyncio, concurrent.futures, decimal, enum, json, logging, re, typing, unittest.mock]
    KEEP["made"] = dataclasses.make_dataclass("Made", ["x"])
    statistics = _heap.walk([])["statistics"]
    assert statistics["overshown"] == 0, statistics["overshown_types"]
    assert statistics["nodes"] > 10_000
    assert statistics["memory_bytes"] < 150 * statistics["nodes"]
