"""What each training step did to memory, and what changed between two steps, as plain values.

Steps are numbered from 1. Bytes are requested bytes, as the ledger counts them; what the allocator sets aside for them
is in a snapshot. Made by `Guard.table` and `Guard.diff`; read, saved and shown without torch.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from leakguard.records import from_plain, to_plain
from leakguard.report import Place, Steps
from leakguard.shown import as_printed

__all__ = ["SiteChange", "StepDiff", "StepRow", "StepTable"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRow:
    """One step on one device, or the steps first_step..last_step of a long run together.

    `trough` and `peak` are the least and the most that was alive at once, `allocated` what was alive at the end,
    `consumed` what was born, and `survivors` what of it is alive still. `change` is None where the end of the step
    before is not known. `seconds` is for all the steps of the row, `backward_seconds` and `optimizer_seconds` for what
    backward passes and optimizers of them held up the host. `reserved` is what the allocator held of the device at the
    end, `found` what of the survivors was born where a finding says; None where that is not known.
    """

    first_step: int
    last_step: int
    device: str
    trough: int
    peak: int
    allocated: int
    consumed: int
    survivors: int
    change: int | None = None
    seconds: float | None = None
    reserved: int | None = None
    found: int | None = None
    backward_seconds: float | None = None
    optimizer_seconds: float | None = None

    @property
    def steps(self) -> int:
        """How many steps the row is about."""
        return self.last_step - self.first_step + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTable:
    """The steps so far, oldest first, device by device."""

    steps: Steps
    rows: tuple[StepRow, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that have rows."""
        return tuple(dict.fromkeys(row.device for row in self.rows))

    def of(self, device: str) -> tuple[StepRow, ...]:
        """The rows of one device."""
        return tuple(row for row in self.rows if row.device == device)

    def thinned(self, most: int) -> StepTable:
        """At most `most` rows a device: the newest half as they are, older ones several steps to a row. Sums
        stay what they were."""
        rows = [row for device in self.devices for row in _thinned(self.of(device), max(most, 2))]
        return StepTable(steps=self.steps, rows=tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """The table in plain dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StepTable:
        """The table that `to_dict` described. Raises RecordError when `data` is none."""
        return from_plain(cls, data)

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        from leakguard.render.sheet_text import to_text

        return to_text(self, encoding=getattr(sys.stdout, "encoding", None))

    def _repr_html_(self) -> str:
        from leakguard.render.notebook import table_html

        return table_html(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteChange:
    """What one call site had more, or less when negative, at the end of the later step, and what it had then.
    `survivors` is what it made in between and is alive still."""

    device: str
    place: Place
    bytes: int
    blocks: int
    live_bytes: int
    live_blocks: int
    survivor_bytes: int = 0
    survivor_blocks: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepDiff:
    """What changed between the ends of two steps, most bytes first. Sites that did not change are left out.

    Of a long run not every step is kept: `from_step` and `to_step` are the steps that were compared.
    """

    from_step: int
    to_step: int
    sites: tuple[SiteChange, ...] = ()

    def by_module(self) -> tuple[tuple[str, str, int, int], ...]:
        """(device, module, bytes more, blocks more), most first."""
        sums: dict[tuple[str, str], list[int]] = {}
        for site in self.sites:
            entry = sums.setdefault((site.device, site.place.module or ""), [0, 0])
            entry[0] += site.bytes
            entry[1] += site.blocks
        ordered = sorted(sums.items(), key=lambda item: -abs(item[1][0]))
        return tuple((device, module, size, blocks) for (device, module), (size, blocks) in ordered)

    def to_dict(self) -> dict[str, Any]:
        """The comparison in plain dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        from leakguard.render.sheet_text import to_text

        return to_text(self, encoding=getattr(sys.stdout, "encoding", None))

    def _repr_html_(self) -> str:
        from leakguard.render.sheet_html import to_html

        return to_html(self)


def _thinned(rows: tuple[StepRow, ...], most: int) -> list[StepRow]:
    if len(rows) <= most:
        return list(rows)
    newest = most // 2
    older, buckets = rows[: len(rows) - newest], most - newest
    bounds = [len(older) * number // buckets for number in range(buckets + 1)]
    merged = [_merged(older[a:b]) for a, b in itertools.pairwise(bounds) if a < b]
    return [*merged, *rows[len(rows) - newest :]]


def _merged(rows: tuple[StepRow, ...]) -> StepRow:
    changes = [row.change for row in rows]
    return StepRow(
        first_step=rows[0].first_step,
        last_step=rows[-1].last_step,
        device=rows[0].device,
        trough=min(row.trough for row in rows),
        peak=max(row.peak for row in rows),
        allocated=rows[-1].allocated,
        consumed=sum(row.consumed for row in rows),
        survivors=sum(row.survivors for row in rows),
        change=None if changes[0] is None else sum(change or 0 for change in changes),
        seconds=_sum(row.seconds for row in rows),
        reserved=rows[-1].reserved,
        found=None if rows[0].found is None else sum(row.found or 0 for row in rows),
        backward_seconds=_sum(row.backward_seconds for row in rows),
        optimizer_seconds=_sum(row.optimizer_seconds for row in rows),
    )


def _sum(parts: Iterable[float | None]) -> float | None:
    known = list(parts)
    return None if None in known else sum(part or 0.0 for part in known)
