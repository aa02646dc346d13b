"""What tests leave behind when the session ends, and whose it is: a test's, or that of a fixture which
outlives tests.

Charged by birth: the blocks born in a test, or in setting up a module fixture, that are alive after all
fixtures have been taken down. Costs a test one note of the time, and nothing at all where nothing is born.
"""

from __future__ import annotations

import gc
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from leakguard._native import core
from leakguard.holders import HolderSearch
from leakguard.report import Place
from leakguard.sites import site_of
from leakguard.wording import holder_phrase

__all__ = ["LeftBehind", "Leftover", "Owner"]

TIDY_EVERY = 512
"""Spans after which those of which nothing is alive are forgotten."""

HOLDERS_FOR = 10
"""Leftovers, the largest, whose holders are looked for."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A test, by its node id; or a fixture by its name, scope and the test that was first to need it."""

    test: str
    fixture: str | None = None
    scope: str = "function"


@dataclass(frozen=True, slots=True)
class Leftover:
    """What of one owner is alive at the end."""

    owner: Owner
    device: str
    blocks: int
    bytes: int
    place: Place
    sites: int
    holder: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON, and for the wire between processes."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Leftover:
        """The leftover that `to_dict` described."""
        return cls(**{**data, "owner": Owner(**data["owner"]), "place": Place(**data["place"])})


class LeftBehind:
    """The spans of a session and their owners; nobody owns what is born between tests."""

    def __init__(self) -> None:
        self._marks = [core.BirthMark()]
        self._owners: list[Owner | None] = [None]
        self._tidy_at = TIDY_EVERY

    @property
    def owner(self) -> Owner | None:
        """Whose turn it is."""
        return self._owners[-1]

    def turn(self, owner: Owner | None) -> None:
        """From now on what is born is this owner's."""
        if self._marks[-1].is_now():
            self._owners[-1] = owner
            return
        self._marks.append(core.BirthMark())
        self._owners.append(owner)
        if len(self._marks) >= self._tidy_at:
            self._tidy()

    def leftovers(self, failed: Collection[str]) -> list[Leftover]:
        """The largest first. Not those of tests that failed: their tracebacks hold what the test held."""
        if not self._held(failed):
            return []
        gc.collect()
        held = self._held(failed)
        rows = sorted(held.items(), key=lambda item: -sum(size for size, _, _ in item[1]))
        return [
            _leftover(owner, device, groups, self._marks[0] if number < HOLDERS_FOR else None)
            for number, ((owner, device), groups) in enumerate(rows)
        ]

    def _held(self, failed: Collection[str]) -> dict[tuple[Owner, str], list[tuple[int, int, int]]]:
        """Bytes, blocks and group of what is alive, by owner and device."""
        held: dict[tuple[Owner, str], list[tuple[int, int, int]]] = {}
        for span, group, blocks, size in core.survivors(self._marks):
            owner = self._owners[span]
            if owner is not None and (owner.fixture is not None or owner.test not in failed):
                held.setdefault((owner, core.group(group)[0]), []).append((size, blocks, group))
        return held

    def _tidy(self) -> None:
        """Births of spans of which nothing is alive need no owner: such a span goes to the one before it."""
        alive = {span for span, *_ in core.survivors(self._marks)}
        kept = [
            number
            for number in range(len(self._marks))
            if number in alive or number in (0, len(self._marks) - 1)
        ]
        self._marks = [self._marks[number] for number in kept]
        self._owners = [self._owners[number] for number in kept]
        self._tidy_at = 2 * len(kept) + TIDY_EVERY


def _leftover(
    owner: Owner, device: str, groups: list[tuple[int, int, int]], since: core.BirthMark | None
) -> Leftover:
    largest = max(groups)[2]
    return Leftover(
        owner=owner,
        device=device,
        blocks=sum(blocks for _, blocks, _ in groups),
        bytes=sum(size for size, _, _ in groups),
        place=site_of(largest).place,
        sites=len(groups),
        holder="" if since is None else _holder(largest, since),
    )


def _holder(group: int, since: core.BirthMark) -> str:
    search = HolderSearch(since)
    search.look([group], 0)
    held = search.held(group)
    return "" if held is None or not held.links else holder_phrase(held.root, held.links, held.holder)
