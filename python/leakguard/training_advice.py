"""Advice on the training loop: what a watch has seen of it, brought to the rules of `memory_advice`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from leakguard._native import core
from leakguard.loop_habits import CodeLine, habits_at
from leakguard.memory_advice import (
    BackwardCalls,
    FirstSteps,
    cache_growth_advice,
    first_steps_advice,
    habit_advice,
)
from leakguard.report import Advice
from leakguard.step_table import StepTable

__all__ = ["training_advice"]


def training_advice(
    watch: Any,
    table: StepTable,
    line: CodeLine | None,
    calls: BackwardCalls,
    *,
    residents: Collection[int],
    grows: bool,
) -> Iterator[Advice]:
    """`line` is that of the backward pass, `residents` are addresses of the libraries' workspaces. While something
    grows, first steps, totals and caches are not what matters."""
    phases = _live_bytes_by_phase()
    habits = habits_at(line) if line is not None else None
    if habits is not None:
        devices = {device for device, phase in phases if phase == "backward"}
        on_gpu = bool(devices) and all(device.startswith("cuda") for device in devices)
        for advice in habit_advice(habits, calls, on_gpu=on_gpu):
            if not (grows and advice.topic == "total with its graph"):
                yield advice
    if not grows:
        for key, size in _bytes_at(residents).items():
            phases[key] -= size
        for seen in _first_steps(watch, phases):
            yield from first_steps_advice(seen)
        for device in table.devices:
            steady = [row for row in table.of(device) if row.first_step > table.steps.warmup]
            yield from cache_growth_advice(steady)


def _live_bytes_by_phase() -> Counter[tuple[str, str]]:
    """Live bytes by device and phase of birth."""
    sums: Counter[tuple[str, str]] = Counter()
    for group in range(core.group_count()):
        alive = sum(window[4] for window in core.group_windows(group))
        if alive:
            device, phase, *_ = core.group(group)
            sums[device, phase] += alive
    return sums


def _bytes_at(addresses: Collection[int]) -> Counter[tuple[str, str]]:
    """The part of `_live_bytes_by_phase` that is at these addresses."""
    sums: Counter[tuple[str, str]] = Counter()
    for address, size, device, _, group, *_ in core.blocks() if addresses else ():
        if address in addresses:
            sums[device, core.group(group)[1]] += size
    return sums


def _first_steps(watch: Any, phases: Counter[tuple[str, str]]) -> Iterator[FirstSteps]:
    marks: dict[str, dict[int, tuple[int, int]]] = {}
    for _, step, _, devices in watch.rows(watch.base):
        for device, allocated, trough, *_ in devices:
            marks.setdefault(device, {})[step - watch.base] = (allocated, trough)
    for device, seen in marks.items():
        later = [allocated for step, (allocated, _) in seen.items() if step > 1]
        if 0 in seen and 1 in seen and later:
            yield FirstSteps(
                device,
                before=seen[0][1],
                after=seen[1][0],
                later=max(later),
                gradients=phases[device, "backward"],
                optimizer=phases[device, "optimizer"],
            )
