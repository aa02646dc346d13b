"""Who keeps the suspects alive: when to look, and what was seen, as values.

Looking is a walk over the whole heap under the GIL. It costs about a garbage collection, so it happens when the
evidence against a call site has just become firm, then at doubling distances within a share of the run's time, and
whenever a report is asked for. It must not wait for the end of the run: most training code is a function, and when
it returns its locals, the holders, are gone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from leakguard._native import core
from leakguard.categories import WANTED, Categories
from leakguard.held import Container, Held
from leakguard.notebook_cells import in_cells
from leakguard.report import Example, Link

__all__ = ["HolderSearch"]

SAMPLES = 6
"""Blocks of each call site that are asked for: what most of them have in common is the holder."""

MOST_OWNERS = 4
"""Owners of one block that are named."""

EARLY_LOOKS = 3
EARLY_SECONDS = 60.0
HOLDING = ("rooted", "native")
BUDGET = 0.01
"""Fresh evidence is looked into at once, this often in the first minute; later looks may take this share of the
time."""


class HolderSearch:
    """The looks of one watch, and the last answer for each group of the ledger.

    Only blocks born after `since` are asked for: what other code has left at the same line is another matter.
    """

    def __init__(self, since: core.BirthMark | None = None) -> None:
        self.seconds = 0.0
        self._since = since
        self._held: dict[int, Held] = {}
        self._early = 0
        self._last_step = 0
        self._owed = False

    def consider(self, growing: Sequence[int], fresh: bool, step: int, elapsed: float) -> None:
        """At a step's end: looks when it is time to. `fresh` says that some of the groups are newly suspected."""
        self._owed |= fresh
        if not growing:
            return
        early = self._owed and self._early < EARLY_LOOKS and elapsed < EARLY_SECONDS
        later = step >= 2 * self._last_step and self.seconds <= BUDGET * elapsed
        if early or later:
            self._early += early
            self.look(growing, step, in_loop=True)

    def look(self, groups: Sequence[int], step: int, *, in_loop: bool = False) -> None:
        """One walk for all of the groups; those that have no live block any more keep their last answer.

        Outside the loop (`in_loop` False) what was seen inside it is not replaced by "garbage" or "nobody": the
        function that held the blocks has returned since, and they only wait to be freed.
        """
        began = time.perf_counter()
        self._owed = False
        self._last_step = step
        samples = core.sample_blocks(list(groups), SAMPLES, self._since)
        if samples:
            found = core.find_holders(
                [address for _, address, _ in samples],
                [group for group, _, _ in samples],
                own_frames(),
                MOST_OWNERS,
                *WANTED,
            )
            categories = _categories([address for _, address, _ in samples], Categories(facts=found["facts"]))
            answers: dict[int, list[Held]] = {}
            for (group, address, size), suspect in zip(samples, found["suspects"], strict=True):
                held = replace(
                    held_of(suspect, step), block_bytes=size, category=categories.get(address, "unknown")
                )
                answers.setdefault(group, []).append(held)
            for group, of_group in answers.items():
                answer = _common(of_group)
                old = self._held.get(group)
                if in_loop or old is None or answer.status in HOLDING or old.status not in HOLDING:
                    self._held[group] = answer
        self.seconds += time.perf_counter() - began

    def held(self, group: int) -> Held | None:
        """The last answer for a group; None when nobody has looked."""
        return self._held.get(group)


def _common(answers: Sequence[Held]) -> Held:
    """The answer that most samples share; a sample in the middle of its life stands for the rest.

    One line makes a result and what its graph saves: the sample that is reached through the graph tells more.
    """
    counts: dict[tuple[object, ...], int] = {}
    for answer in answers:
        counts[answer.key] = counts.get(answer.key, 0) + 1
    most = max(counts.values())
    best = [answer for answer in answers if counts[answer.key] == most]
    best = [answer for answer in best if answer.keeps_graph] or best
    return best[len(best) // 2]


def _categories(addresses: list[int], categories: Categories) -> dict[int, str]:
    return {block[0]: categories.of(block).category for block in core.blocks_at(addresses)}


def held_of(suspect: dict[str, Any], step: int) -> Held:
    """The value of what `core.find_holders` says of one suspect, seen at a step."""
    container = suspect["container"]
    garbage = suspect["garbage"]
    example = suspect["example"]
    parts = suspect["root_parts"]
    root, links = in_cells(
        suspect["root"], parts["file"], parts["line"], tuple(map(_link, suspect["retained_by"]))
    )
    return Held(
        status=suspect["status"],
        root=root,
        root_kind=parts["kind"],
        root_name=parts["name"],
        links=links,
        holder=suspect["holder"],
        container=None
        if container is None
        else Container(container["type"], container["length"], container["limit"]),
        retained_bytes=suspect["retained_bytes"],
        others=tuple(
            in_cells(owner["root"], owner["root_parts"]["file"], owner["root_parts"]["line"], ())[0]
            for owner in suspect["other_owners"]
        ),
        collectable=None if garbage is None else garbage["collectable"],
        example=None
        if example is None
        else Example(
            shape=tuple(example["shape"]), dtype=example["dtype"], requires_grad=example["requires_grad"]
        ),
        seen_at=step,
        owner_resets=suspect["owner_resets"],
    )


def _link(link: dict[str, Any]) -> Link:
    kind = link["type"] if link["detail"] is None else f"{link['type']}, {link['detail']}"
    if link["count"] > 1:
        kind += f" x {link['count']}"
    return Link(edge=link["edge"], name=link["name"], type=kind, file=link["file"], line=link["line"])


def own_frames() -> int:
    """Innermost frames that are leakguard's: what they hold is held by the asker."""
    folder = str(Path(__file__).parent)
    count = 0
    frame: FrameType | None = sys._getframe(1)  # this one is gone when the walk begins
    while frame is not None and frame.f_code.co_filename.startswith(folder):
        count += 1
        frame = frame.f_back
    return count
