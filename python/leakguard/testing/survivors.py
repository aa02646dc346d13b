"""From groups that grew in repeated runs to findings: joined with who holds them, as those of a watch are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from leakguard._native import core
from leakguard.attachment import Attachment
from leakguard.cuda_memory import rounded
from leakguard.diagnosis import next_without_fix
from leakguard.findings import Growing, findings_of
from leakguard.held import Held
from leakguard.holders import HolderSearch
from leakguard.report import Finding, Link, Report, Steps, is_leak, versions
from leakguard.sites import site_of
from leakguard.testing.births import BirthRow
from leakguard.testing.repeats import Kept
from leakguard.units import format_bytes

__all__ = ["counted", "leak_report", "survivors_as_findings"]

RUNNERS_OWN = (
    "LogCaptureHandler",
    "_LiveLoggingStreamHandler",
    "MockerFixture",
    "MonkeyPatch",
    "WarningsChecker",
    "WarningsRecorder",
)
"""Types of pytest's and its plugins' that keep what a test gives them, and let go of it after the test."""

RUNNERS_LISTS = ("_cleanups", "_finalizers")
"""Attributes of unittest's and pytest's objects with what is to be called after the test."""


def survivors_as_findings(
    groups: Collection[int],
    runs: Sequence[Kept],
    births: BirthRow,
    attachment: Attachment,
    *,
    first: int,
    unit: str,
) -> tuple[Finding, ...]:
    """The findings on these groups, of which each of `runs`, the first of them number `first` from 1, left
    something.

    One walk of the heap for all. With a single run there is no rate to speak of, and the title says what is
    kept.
    """
    search = HolderSearch(births.first)
    search.look(sorted(groups), first + len(runs) - 1)
    residents = attachment.cuda.residents()
    growing = []
    for group in sorted(groups):
        held = search.held(group)
        if _is_runners(held):
            continue
        site = site_of(group)
        if site.private_pool:
            continue
        addresses = [address for _, address, _ in core.sample_blocks([group], 64, births.first)]
        growing.append(
            Growing(
                site=site,
                first_step=first,
                last_step=first + len(runs) - 1,
                birth_steps=len(runs),
                blocks=(blocks := sum(run[group][0] for run in runs)),
                bytes=(size := _set_aside(site.device, sum(run[group][1] for run in runs), blocks)),
                blocks_per_step=blocks / len(runs),
                bytes_per_step=size / len(runs),
                held=held,
                resident=_common_resident(residents, addresses),
            )
        )
    findings = findings_of(growing, Steps(count=first + len(runs) - 1), unit)
    if len(runs) > 1:
        return findings
    return tuple(_after_one(finding, unit) for finding in findings)


def _after_one(finding: Finding, unit: str) -> Finding:
    """A single run has no rate, and nothing happens in `every` run."""
    return replace(
        finding,
        title=f"{finding.device} keeps {format_bytes(finding.bytes)} after the {unit}",
        why=finding.why.replace(f" in every {unit}", f" in the {unit}").replace(
            f"every {unit}'s", f"the {unit}'s"
        ),
    )


def counted(
    findings: Iterable[Finding], limit: int, filter_fn: Callable[[Finding], bool] | None = None
) -> tuple[Finding, ...]:
    """The findings that break a limit: no workspace, no ring, nothing the user has filtered out."""
    return tuple(
        finding
        for finding in findings
        if is_leak(finding)
        and _kept(finding) > limit
        and not any(map(_lets_go_after_the_test, finding.retained_by))
        and (filter_fn is None or filter_fn(finding))
    )


def _lets_go_after_the_test(link: Link) -> bool:
    return link.name in RUNNERS_LISTS or (link.type or "").startswith(RUNNERS_OWN)


def _kept(finding: Finding) -> float:
    """What the loop itself has kept: at the same line others may have left something before."""
    if finding.first_step is None or finding.last_step is None:
        return finding.bytes
    return min(finding.bytes, finding.bytes_per_step * (finding.last_step - finding.first_step + 1))


def leak_report(findings: Sequence[Finding], steps: Steps) -> Report:
    """A report that says leak, on findings that count."""
    here = versions()
    first = findings[0]
    return Report(
        leakguard=here.leakguard,
        torch=here.torch,
        python=here.python,
        status="leak",
        why=first.why,
        next=first.fix or next_without_fix(first),
        steps=steps,
        findings=tuple(findings),
    )


def _is_runners(held: Held | None) -> bool:
    """Whether leakguard or pytest itself is the holder."""
    return held is not None and held.status == "own"


def _set_aside(device: str, requested: int, blocks: int) -> int:
    return round(rounded(requested, blocks)) if device.startswith("cuda") else requested


def _common_resident(residents: dict[int, str], addresses: Sequence[int]) -> str | None:
    names = {residents.get(address) for address in addresses}
    return names.pop() if len(names) == 1 else None
