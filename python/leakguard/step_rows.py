"""The step table and the step comparison, out of the ledger's marks. A watch's steps are numbered from its base."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from leakguard._native import core
from leakguard.phase_times import PhaseTimes
from leakguard.report import Steps
from leakguard.sites import site_of
from leakguard.step_table import SiteChange, StepDiff, StepRow, StepTable

__all__ = ["RowMaker", "step_diff", "step_growth", "step_table", "survivors_of"]

Mark = tuple[int, int, float, tuple[tuple[str, int, int, int, int], ...]]
"""First step, last step, seconds, and for each device what was allocated, trough, peak, consumed."""


class RowMaker:
    """Rows out of the marks of a watch, which come in order and perhaps in portions. Marks before `base` make none, but
    a row's change and time count from them. `phases` gives the seconds of backward passes and optimizers between the
    ends of two steps."""

    def __init__(
        self, base: int, phases: Callable[[int, int], tuple[float, float] | None] = lambda before, last: None
    ) -> None:
        self.next = 0
        """The ledger's number of the first step that has made no row yet."""
        self._base = base
        self._phases = phases
        self._before: dict[str, int] = {}
        self._clock: float | None = None

    def rows(
        self, marks: Iterable[Mark], survivors: Mapping[tuple[str, int], int] = MappingProxyType({})
    ) -> list[StepRow]:
        """The rows of these marks; `survivors` by device and by the ledger's number of a mark's last step."""
        rows = []
        base, before = self._base, self._before
        for first, step, seconds, devices in marks:
            if step >= base:
                backward, optimizer = self._phases(self.next - 1, step) or (None, None)
                for device, allocated, trough, peak, consumed in devices:
                    rows.append(
                        StepRow(
                            first_step=max(first, base, self.next) - base + 1,
                            last_step=step - base + 1,
                            device=device,
                            trough=trough,
                            peak=peak,
                            allocated=allocated,
                            consumed=consumed,
                            survivors=survivors.get((device, step), 0),
                            change=allocated - before[device] if device in before else None,
                            seconds=None if self._clock is None else seconds - self._clock,
                            backward_seconds=backward,
                            optimizer_seconds=optimizer,
                        )
                    )
            before.update({device: allocated for device, allocated, *_ in devices})
            self._clock = seconds
            self.next = step + 1
        return rows


def step_table(watch: core.Watch, steps: Steps, phases: PhaseTimes) -> StepTable:
    """What the steps of `watch` that count have done, each with what of it is alive now."""
    marks = watch.rows()
    ends = [marks[0][0] - 1, *(step for _, step, _, _ in marks)] if marks else []  # what is older is nobody's
    rows: dict[str, list[StepRow]] = {}
    for row in RowMaker(watch.base, phases.between).rows(marks, survivors_of(ends)):
        rows.setdefault(row.device, []).append(row)
    return StepTable(steps=steps, rows=tuple(row for of_device in rows.values() for row in of_device))


def step_growth(watch: core.Watch, warmup: int, most: int) -> StepDiff | None:
    """What call sites have more now than after `warmup` steps, at most so many of them; looks at no single block. None
    while there are no such two marks."""
    base = watch.base
    first, last = watch.nearest(base + warmup - 1), watch.nearest(watch.steps - 1)
    if first is None or last is None or not base <= first < last:
        return None
    found = sorted(watch.diff(first, last) or (), key=lambda change: (-abs(change[2]), -abs(change[1])))
    sites = []
    for group, blocks, size, live_blocks, live_bytes in found[:most]:
        site = site_of(group)
        sites.append(
            SiteChange(
                device=site.device,
                place=site.place,
                bytes=size,
                blocks=blocks,
                live_bytes=live_bytes,
                live_blocks=live_blocks,
            )
        )
    return StepDiff(from_step=first - base + 1, to_step=last - base + 1, sites=tuple(sites))


def step_diff(watch: core.Watch, from_step: int, to_step: int) -> StepDiff:
    """What changed between the ends of two steps. Raises ValueError for a step that has not ended yet."""
    base = watch.base
    kept = [watch.nearest(step - 1 + base) if step > 0 else None for step in (from_step, to_step)]
    for wanted, found in zip((from_step, to_step), kept, strict=True):
        if found is None or found < base or wanted > watch.steps - base:
            raise ValueError(
                f"step {wanted} has not been seen: steps 1 to {watch.steps - base} have ended, "
                "and Guard.table() lists those that are kept"
            )
    first, last = sorted(step for step in kept if step is not None)
    sign = 1 if kept == [first, last] else -1
    born = _born_between(first, last)
    sites = []
    for group, blocks, size, live_blocks, live_bytes in watch.diff(first, last) or ():
        site = site_of(group)
        survivor_bytes, survivor_blocks = born.get(group, (0, 0))
        if sign < 0:
            live_bytes, live_blocks = live_bytes - size, live_blocks - blocks
            survivor_bytes = survivor_blocks = 0
        sites.append(
            SiteChange(
                device=site.device,
                place=site.place,
                bytes=sign * size,
                blocks=sign * blocks,
                live_bytes=live_bytes,
                live_blocks=live_blocks,
                survivor_bytes=survivor_bytes,
                survivor_blocks=survivor_blocks,
            )
        )
    sites.sort(key=lambda site: (-abs(site.bytes), -abs(site.blocks)))
    ends = (first, last) if sign > 0 else (last, first)
    return StepDiff(from_step=ends[0] - base + 1, to_step=ends[1] - base + 1, sites=tuple(sites))


def survivors_of(ends: Sequence[int]) -> dict[tuple[str, int], int]:
    """Bytes alive now, by device and by the last step of the row in which they were born: the first of `ends`,
    ascending numbers of the ledger, that is not before it."""
    sums: dict[tuple[str, int], int] = {}
    for _, requested, device, born, _, _, _, pending, *_ in core.blocks():
        if pending or not ends or born > ends[-1]:
            continue
        key = (device, ends[bisect.bisect_left(ends, born)])
        sums[key] = sums.get(key, 0) + requested
    return sums


def _born_between(first: int, last: int) -> dict[int, tuple[int, int]]:
    """(bytes, blocks) of each group that were born after step `first`, up to step `last`, and are alive now."""
    sums: dict[int, tuple[int, int]] = {}
    for _, requested, _, born, group, _, _, pending, *_ in core.blocks():
        if first < born <= last and not pending:
            size, blocks = sums.get(group, (0, 0))
            sums[group] = (size + requested, blocks + 1)
    return sums
