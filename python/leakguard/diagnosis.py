"""From evidence to verdict: the findings of a watch and the sentences that explain them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakguard.fingerprint import fingerprint
from leakguard.report import (
    MIN_STEPS,
    DeviceUsage,
    Finding,
    Lost,
    Overhead,
    Place,
    Report,
    Steps,
    status_of,
    versions,
)
from leakguard.sites import Site
from leakguard.units import format_bytes

__all__ = ["Growing", "Observation", "diagnose"]


@dataclass(frozen=True, slots=True)
class Growing:
    """What the ledger says of one growing group. Steps count from the first step of the run, 1."""

    site: Site
    first_step: int
    last_step: int
    birth_steps: int
    blocks: int
    bytes: int
    blocks_per_step: float
    bytes_per_step: float


@dataclass(frozen=True, slots=True)
class Observation:
    """All that a watch has seen, with nothing of the process in it."""

    steps: Steps
    devices: tuple[DeviceUsage, ...]
    growing: tuple[Growing, ...]
    overhead: Overhead
    lost: Lost
    trouble: tuple[str, ...] = ()  # devices that are not covered, and why


def diagnose(observation: Observation) -> Report:
    """The report on what was seen."""
    findings = tuple(
        sorted(
            (_finding(group, observation.steps) for group in _merge(observation.growing)),
            key=_order,
        )
    )
    status = status_of(findings, observation.steps)
    here = versions()
    why, advice = _sentences(status, findings, observation)
    return Report(
        leakguard=here.leakguard,
        torch=here.torch,
        python=here.python,
        status=status,
        why=why,
        next=advice,
        steps=observation.steps,
        devices=observation.devices,
        findings=findings,
        overhead=observation.overhead,
        lost=observation.lost,
    )


def _order(finding: Finding) -> tuple[float, bool, str]:
    """Most bytes a step first; among equals what the program made before what followed from it (gradients, state)."""
    follows = finding.allocated_at.phase in ("backward", "optimizer")
    return -finding.bytes_per_step, follows, finding.fingerprint


def _merge(growing: Iterable[Growing]) -> list[list[Growing]]:
    """Groups that a reader cannot tell apart: the same device, place and phase, on ways through the library that
    differ."""
    merged: dict[tuple[object, ...], list[Growing]] = defaultdict(list)
    for group in growing:
        place = group.site.place
        merged[group.site.device, place.file, place.line, place.expression, place.function, place.phase].append(group)
    return list(merged.values())


def _finding(groups: Sequence[Growing], steps: Steps) -> Finding:
    place = max(groups, key=lambda group: group.bytes_per_step).site.place
    device = groups[0].site.device
    bytes_per_step = sum(group.bytes_per_step for group in groups)
    blocks_per_step = sum(group.blocks_per_step for group in groups)
    first = min(group.first_step for group in groups)
    last = max(group.last_step for group in groups)
    birth_steps = max(group.birth_steps for group in groups)
    return Finding(
        fingerprint=fingerprint("", (), place.function, place.expression),
        verdict="growing",
        title=f"{device} grows {_rate(bytes_per_step)} a step, {_pace(first, last, birth_steps, steps)}",
        why=f"{_where(place)} makes {_pieces(blocks_per_step)} that nothing lets go of",
        device=device,
        bytes=sum(group.bytes for group in groups),
        blocks=sum(group.blocks for group in groups),
        bytes_per_step=bytes_per_step,
        blocks_per_step=blocks_per_step,
        first_step=first,
        last_step=last,
        allocated_at=place,
    )


def _rate(bytes_per_step: float) -> str:
    return format_bytes(bytes_per_step)


def _pace(first: int, last: int, birth_steps: int, steps: Steps) -> str:
    span = last - first + 1
    if birth_steps >= span:
        return f"steadily since step {first} ({span} of {steps.count} steps)"
    return f"in every {_ordinal(round(span / birth_steps))} step since step {first} ({birth_steps} times)"


def _ordinal(number: int) -> str:
    if number <= 2:
        return "other" if number == 2 else "single"
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _where(place: Place) -> str:
    if place.file is None or place.line is None:
        return "a line that could not be told"
    at = f"{Path(place.file).name}:{place.line}" if not place.file.startswith("<") else f"{place.file} line {place.line}"
    return f"{place.expression}  ({at})" if place.expression else at


def _pieces(blocks_per_step: float) -> str:
    if blocks_per_step >= 1.5:
        return f"{blocks_per_step:.0f} blocks a step"
    if blocks_per_step >= 0.9:
        return "a block a step"
    return f"a block every {1 / blocks_per_step:.0f} steps" if blocks_per_step > 0 else "blocks"


def _sentences(status: str, findings: Sequence[Finding], seen: Observation) -> tuple[str, str]:
    if status in ("leak", "warning"):
        first = findings[0]
        if len(findings) == 1:
            why = first.why
        else:
            total = sum(finding.bytes_per_step for finding in findings)
            why = (
                f"blocks born at {len(findings)} places are kept, {_rate(total)} a step in all; "
                f"most of it: {first.why}"
            )
        return why, first.fix or "look at what keeps the result of that line: a list, a total, an attribute, a cache"
    steps = seen.steps
    if status == "inconclusive":
        if steps.source is None:
            return (
                "no training step was seen: no optimizer step, no backward pass, no forward of a module",
                "call leakguard.step() at the end of each iteration",
            )
        needed = steps.warmup + MIN_STEPS
        return (
            f"{_plural(steps.count, 'step')} were seen, and growth is told from caching and warm-up "
            f"after {needed}" if steps.count != 1 else
            f"1 step was seen, and growth is told from caching and warm-up after {needed}",
            f"run at least {needed} steps",
        )
    watched = ", ".join(itertools.chain((usage.device for usage in seen.devices), seen.trouble)) or "nothing"
    return (
        f"no call site kept more memory from step to step: {_plural(steps.count, 'step')} on {watched}",
        "nothing to do",
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
