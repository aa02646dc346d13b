"""What the tests of the heap walk build their small worlds from, and how they read the answer.

Needs no torch, so that the same tests run on every interpreter the walk supports.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import _heap

Link = tuple[str, str | None, str]


class Suspect:
    """The object whose holders are asked for; weakly referable, so that a test can see it die."""

    __slots__ = ("__weakref__", "other")

    def __init__(self, other: object = None) -> None:
        self.other = other


class Box:
    """An ordinary object with attributes."""


class Slotted:
    __slots__ = ("kept",)


Pair = collections.namedtuple("Pair", "left right")


def ask(address: int, **options: Any) -> dict[str, Any]:
    """The walk's answer for one object; the accounting must close in every walk of every test."""
    report = _heap.walk([address], **options)
    statistics = report["statistics"]
    assert statistics["nodes"] > 0, "the walk failed"
    assert statistics["overshown"] == 0, statistics["overshown_types"]
    answer: dict[str, Any] = report["suspects"][0]
    return answer


def links(answer: dict[str, Any]) -> list[Link]:
    return [(link["edge"], link["name"], link["type"]) for link in answer["retained_by"]]


def chain(address: int) -> list[Link]:
    """Edge, name and type of every link from the root to the object."""
    answer = ask(address)
    assert answer["status"] == "rooted", answer
    return links(answer)


@contextmanager
def in_another_thread(work: Callable[[Callable[[Any], None]], None]) -> Iterator[Any]:
    """Runs work(pause) in a thread and gives what it passed to pause, while it waits there."""
    ready, go = threading.Event(), threading.Event()
    said: list[Any] = []

    def pause(value: Any) -> None:
        said.append(value)
        ready.set()
        go.wait()

    thread = threading.Thread(target=work, args=(pause,), name="worker-7")
    thread.start()
    ready.wait()
    try:
        yield said[0]
    finally:
        go.set()
        thread.join()
