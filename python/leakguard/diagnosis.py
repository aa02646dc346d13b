"""From what a watch has seen to its report: the verdict and the sentences at its top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakguard.findings import Growing, findings_of
from leakguard.report import (
    MIN_STEPS,
    Advice,
    DeviceUsage,
    Finding,
    Lost,
    Overhead,
    Report,
    Steps,
    is_leak,
    is_warning,
    status_of,
    versions,
)
from leakguard.wording import plural, size

__all__ = ["Growing", "Observation", "diagnose", "next_without_fix"]


@dataclass(frozen=True, slots=True)
class Observation:
    """All that a watch has seen, with nothing of the process in it."""

    steps: Steps
    devices: tuple[DeviceUsage, ...]
    growing: tuple[Growing, ...]
    overhead: Overhead
    lost: Lost
    advice: tuple[Advice, ...] = ()
    trouble: tuple[str, ...] = ()  # devices that are not covered, and why


def diagnose(observation: Observation) -> Report:
    """The report on what was seen."""
    findings = findings_of(observation.growing, observation.steps)
    status = status_of(findings, observation.steps)
    here = versions()
    why, then = _sentences(status, findings, observation)
    return Report(
        leakguard=here.leakguard,
        torch=here.torch,
        python=here.python,
        status=status,
        why=why,
        next=then,
        steps=observation.steps,
        devices=observation.devices,
        findings=findings,
        advice=observation.advice,
        overhead=observation.overhead,
        lost=observation.lost,
    )


def _sentences(status: str, findings: Sequence[Finding], seen: Observation) -> tuple[str, str]:
    if status == "inconclusive":
        return _too_little(seen.steps)
    told = [finding for finding in findings if (is_leak if status == "leak" else is_warning)(finding)]
    if told:
        first = told[0]
        why = first.why
        if len(told) > 1:
            total = sum(finding.bytes_per_step for finding in told)
            why = f"{first.why}; {plural(len(told), 'holder')} in all, {size(total)} a step"
        return why, first.fix or next_without_fix(first)
    watched = ", ".join([*(usage.device for usage in seen.devices), *seen.trouble]) or "nothing"
    return (
        f"no call site kept more memory from step to step: {plural(seen.steps.count, 'step')} on {watched}",
        "nothing to do",
    )


def next_without_fix(finding: Finding) -> str:
    """What to do about a finding whose cause is not known."""
    if finding.retained_by:
        return "let that holder go of what it keeps from step to step; the references below lead to it"
    return "look at what keeps the result of that line: a list, a total, an attribute, a cache"


def _too_little(steps: Steps) -> tuple[str, str]:
    if steps.source is None:
        return (
            "no training step was seen: no optimizer step, no backward pass, no forward of a module",
            "call leakguard.step() at the end of each iteration",
        )
    needed = steps.warmup + MIN_STEPS
    seen = "1 step was seen" if steps.count == 1 else f"{steps.count} steps were seen"
    return (
        f"{seen}, and growth is told from warm-up and caching after {needed}",
        f"run at least {needed} steps",
    )
