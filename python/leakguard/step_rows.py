"""The step table and the step comparison, out of the ledger's marks. A watch's steps are numbered from its base."""

from __future__ import annotations

from leakguard._native import core
from leakguard.report import Steps
from leakguard.sites import site_of
from leakguard.step_table import SiteChange, StepDiff, StepRow, StepTable

__all__ = ["step_diff", "step_table"]


def step_table(watch: core.Watch, steps: Steps) -> StepTable:
    """What the steps of `watch` that count have done, each with what of it is alive now."""
    marks = watch.rows()
    base = watch.base
    ends = [step for _, step, _, _ in marks]
    survivors = _survivors(ends)
    rows: dict[str, list[StepRow]] = {}
    before: dict[str, int] = {}
    clock: float | None = None
    for first, step, seconds, devices in marks:
        if step >= base:
            for device, allocated, trough, peak, consumed in devices:
                rows.setdefault(device, []).append(
                    StepRow(
                        first_step=max(first, base) - base + 1,
                        last_step=step - base + 1,
                        device=device,
                        trough=trough,
                        peak=peak,
                        allocated=allocated,
                        consumed=consumed,
                        survivors=survivors.get((device, step), 0),
                        change=allocated - before[device] if device in before else None,
                        seconds=None if clock is None else seconds - clock,
                    )
                )
        before |= {device: allocated for device, allocated, *_ in devices}
        clock = seconds
    return StepTable(steps=steps, rows=tuple(row for of_device in rows.values() for row in of_device))


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


def _survivors(ends: list[int]) -> dict[tuple[str, int], int]:
    """Bytes alive now, by device and by the mark at the end of the steps in which they were born."""
    owner: dict[int, int] = {}
    sums: dict[tuple[str, int], int] = {}
    for _, requested, device, born, _, _, _, pending, *_ in core.blocks():
        if pending or not ends or born > ends[-1]:
            continue
        if born not in owner:
            owner[born] = next(end for end in ends if born <= end)
        key = (device, owner[born])
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
