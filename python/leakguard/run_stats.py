"""The figures of one run: how long, how much at most and when, which lines have most."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakguard.recording import MOST_SITES, Recording
from leakguard.records import from_plain, to_plain
from leakguard.report import Overhead, Place, Status, Steps
from leakguard.step_table import StepRow

__all__ = ["DeviceStats", "RunStats", "SiteStats", "site_stats", "stats_of"]

SiteKey = tuple[str, str | None, int | None, str | None, str | None, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceStats:
    """One device. `peak_step` and `most_consumed_step` are the steps, or the last of several in one row, of the most
    that was alive at once and of the most that was born in one step. None where it is not known."""

    device: str
    peak: int | None = None
    peak_step: int | None = None
    most_consumed: int | None = None
    most_consumed_step: int | None = None
    allocated: int | None = None
    bytes_per_step: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteStats:
    """One call site: what it had alive at the end, and how much more in each step since the warm-up: None where that is
    not known."""

    device: str
    place: Place
    bytes: int
    blocks: int
    bytes_per_step: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStats:
    """The figures of a run; call sites with most bytes first. `seconds` is the time of the steps that were timed,
    `timed` their number, `slowest` the longest of them. The times are None for a report file, which has no steps."""

    command: str | None = None
    began: float | None = None
    status: Status
    steps: Steps
    seconds: float | None = None
    timed: int = 0
    slowest: float | None = None
    slowest_step: int | None = None
    devices: tuple[DeviceStats, ...] = ()
    sites: tuple[SiteStats, ...] = ()
    findings: int = 0
    overhead: Overhead
    leakguard: str = ""
    torch: str = ""
    python: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The figures in plain dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunStats:
        """The figures that `to_dict` described. Raises RecordError when `data` is none."""
        return from_plain(cls, data)

    def __str__(self) -> str:
        from leakguard.render.sheet_text import to_text

        return to_text(self, encoding=getattr(sys.stdout, "encoding", None))

    def _repr_html_(self) -> str:
        from leakguard.render.sheet_html import to_html

        return to_html(self)


def stats_of(recording: Recording) -> RunStats:
    """The figures of a recording."""
    report, table = recording.report, recording.table
    steps = report.steps if table is None else table.steps
    rows = [
        row for row in (table.of(table.devices[0]) if table and table.rows else ()) if row.seconds is not None
    ]
    slowest = max(rows, key=_seconds, default=None)
    return RunStats(
        command=recording.command,
        began=recording.began,
        status=report.status,
        steps=steps,
        seconds=sum(row.seconds or 0.0 for row in rows) if rows else None,
        timed=sum(row.steps for row in rows),
        slowest=None if slowest is None else _seconds(slowest),
        slowest_step=None if slowest is None else slowest.last_step,
        devices=_devices(recording),
        sites=site_stats(recording),
        findings=len(report.findings),
        overhead=report.overhead,
        leakguard=report.leakguard,
        torch=report.torch,
        python=report.python,
    )


def site_stats(recording: Recording) -> tuple[SiteStats, ...]:
    """The call sites of a recording, most bytes first: what its snapshot has, else what has grown, else what its
    findings are about."""
    growth = recording.growth
    rates: dict[SiteKey, float] = {}
    if growth is not None:
        span = max(abs(growth.to_step - growth.from_step), 1)
        rates = {key_of(one.device, one.place): one.bytes / span for one in growth.sites}
    alive: dict[SiteKey, tuple[Place, int, int]] = {}

    def add(device: str, place: Place, size: int, blocks: int) -> None:
        key = key_of(device, place)
        kept, bytes_before, blocks_before = alive.get(key, (place, 0, 0))
        alive[key] = (kept, bytes_before + size, blocks_before + blocks)

    if recording.snapshot is not None:
        for group in recording.snapshot.groups:
            add(group.device, group.place, group.bytes, group.blocks)
    elif growth is not None:
        for one in growth.sites:
            add(one.device, one.place, one.live_bytes, one.live_blocks)
    else:
        for finding in recording.report.findings:
            add(finding.device, finding.allocated_at, finding.bytes, finding.blocks)
            rates[key_of(finding.device, finding.allocated_at)] = finding.bytes_per_step
    others = 0.0 if growth is not None and len(growth.sites) < MOST_SITES else None
    found = [
        SiteStats(
            device=key[0], place=place, bytes=size, blocks=blocks, bytes_per_step=rates.get(key, others)
        )
        for key, (place, size, blocks) in alive.items()
    ]
    return tuple(sorted(found, key=lambda site: (-site.bytes, -site.blocks)))


def key_of(device: str, place: Place) -> SiteKey:
    """The same for blocks of one line: modules share lines, and one line's blocks are counted together."""
    return device, place.file, place.line, place.function, place.expression, place.phase


def _devices(recording: Recording) -> tuple[DeviceStats, ...]:
    table, usages = recording.table, {usage.device: usage for usage in recording.report.devices}
    devices = []
    for device in dict.fromkeys([*usages, *(table.devices if table is not None else ())]):
        rows = () if table is None else table.of(device)
        usage = usages.get(device)
        peak = max(rows, key=lambda row: row.peak, default=None)
        most = max(rows, key=_consumed, default=None)
        devices.append(
            DeviceStats(
                device=device,
                peak=peak.peak if peak else usage.peak_bytes if usage else None,
                peak_step=peak.last_step if peak else None,
                most_consumed=round(_consumed(most)) if most else None,
                most_consumed_step=most.last_step if most else None,
                allocated=rows[-1].allocated if rows else usage.allocated_bytes if usage else None,
                bytes_per_step=usage.bytes_per_step if usage else None,
            )
        )
    return tuple(devices)


def _consumed(row: StepRow) -> float:
    return row.consumed / row.steps


def _seconds(row: StepRow) -> float:
    return (row.seconds or 0.0) / row.steps
