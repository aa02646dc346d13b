"""The check of one test: its body is run until it is known whether memory grows.

Two detectors, one limit. The steps inside one run of the body: a loop of twenty steps and more proves itself,
also when what it hoards dies at its return. And the runs: what each of them leaves behind.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field

from leakguard._native import core
from leakguard.attachment import Attachment
from leakguard.guard import Guard
from leakguard.leak_error import LeakError, MemoryLimitError
from leakguard.report import Finding, Steps
from leakguard.testing.births import BirthRow
from leakguard.testing.repeats import Kept, Plan, Verdict
from leakguard.testing.survivors import counted, leak_report, survivors_as_findings
from leakguard.units import format_bytes

__all__ = ["Check", "Outcome"]

ENOUGH_STEPS = 20
"""Steps in a body that make running it again needless, when nothing outlives it."""

FEWEST_STEPS = 12
"""Steps in a body below which a watch says nothing."""


@dataclass(slots=True)
class Outcome:
    """What a check has found. `known` are findings that the baseline lists."""

    status: str = "clean"  # or leak, memory, known, undecided
    runs: int = 0
    steps: int = 0
    peak_bytes: int | None = None
    findings: tuple[Finding, ...] = ()
    collected_bytes: int = 0  # tensor memory that was garbage until leakguard collected it
    note: str = ""
    is_told: bool = False  # also when clean


@dataclass(slots=True)
class Check:
    """One test. `is_marked` tells a test that asked for it from one that is checked because all are.

    `watch` gives the Guard for the time of the check, or None; `is_known(finding)` says whether it is in the
    baseline; `fails` is False while the baseline is written.
    """

    plan: Plan
    attachment: Attachment
    watch: Callable[[], AbstractContextManager[Guard | None]]
    filter_fn: Callable[[Finding], bool] | None = None
    memory: int | None = None
    leaks: bool = True
    is_marked: bool = True
    fails: bool = True
    is_known: Callable[[Finding], bool] = lambda finding: False
    between_runs: Callable[[], None] = lambda: None
    outcome: Outcome = field(default_factory=Outcome)

    def runs(self) -> Generator[None, None, None]:
        """Yields each time the body is to be run. Raises LeakError when it grows or takes too much."""
        with self.watch() as guard:
            before = {device: core.counts(device)[1] for device in core.devices()}
            births = BirthRow()
            self.outcome.is_told = self.is_marked
            while True:
                yield
                self.outcome.runs += 1
                if self.outcome.runs == 1:
                    self._judge_peak(guard, before)
                    self._judge_steps(guard)
                if self._is_decided(births):
                    return
                self.between_runs()
                births.next_span()

    def gives_up(self, error: BaseException) -> bool:
        """Whether `error`, raised by the body, only ends the check: that of a test which never asked to be
        run again."""
        if self.outcome.runs == 0:
            return False
        number = self.outcome.runs + 1
        repetition = f"run {number} of the test body, which leakguard repeats to see whether memory grows"
        if self.is_marked:
            error.add_note(f"leakguard: raised in {repetition}; with repeats=1 it is run once")
            return False
        self.outcome.status = "undecided"
        self.outcome.note = f"{type(error).__name__} in {repetition}"
        return True

    def _judge_peak(self, guard: Guard | None, before: dict[str, int]) -> None:
        if self.memory is None:
            return
        peaks = (
            guard.peaks()
            if guard is not None
            else {name: core.live_range(name)[1] for name in core.devices()}
        )
        grown = {device: peak - before.get(device, 0) for device, peak in peaks.items()}
        cuda = {device: size for device, size in grown.items() if device.startswith("cuda") and size > 0}
        device, size = max((cuda or {"cpu": grown.get("cpu", 0)}).items(), key=lambda item: item[1])
        self.outcome.peak_bytes = size
        if size > self.memory:
            self.outcome.status = "memory"
            more = f"{device} had {format_bytes(size)} more at once than when the test body began"
            raise MemoryLimitError(f"{more}; limit {format_bytes(self.memory)}")

    def _judge_steps(self, guard: Guard | None) -> None:
        if guard is None or not self.leaks:
            return
        self.outcome.steps = guard.step_count
        if self.outcome.steps < FEWEST_STEPS:
            return
        report = guard.report()
        findings = counted(report.findings, self.plan.limit, self.filter_fn)
        self._found(findings, report.steps, f"in {report.steps.count} steps inside the test")

    def _is_decided(self, births: BirthRow) -> bool:
        if not self.leaks or self.outcome.status != "clean":
            return True
        if births.is_quiet() and (self.plan.first_decides or self.outcome.runs > self.plan.least_warmup):
            return True
        kept = births.kept()
        if self.outcome.steps >= ENOUGH_STEPS and not self._over(kept[0]):
            return True
        verdict = self.plan.judge(kept)
        if verdict.suspects:
            self._collect(births)
            kept = births.kept()
            verdict = self.plan.judge(kept)
        if verdict.decided and verdict.suspects:
            self._runs_grew(verdict, kept, births)
        return verdict.decided

    def _over(self, run: Kept) -> bool:
        return any(size > self.plan.limit for _, size in run.values())

    def _collect(self, births: BirthRow) -> None:
        """Frees garbage, which is no leak: what is young at each suspicion, for next to nothing; all of it
        once a call site has grown in four runs, and in the end."""
        everything = self.outcome.runs in (self.plan.least_warmup + 4, self.plan.total)
        before = _bytes(births.kept())  # anew: what a thread has let go of meanwhile was no garbage
        gc.collect(2 if everything else 1)
        self.outcome.collected_bytes += max(0, before - _bytes(births.kept()))

    def _runs_grew(self, verdict: Verdict, kept: list[Kept], births: BirthRow) -> None:
        runs = [kept[number] for number in verdict.runs]
        first = verdict.runs.start + 1
        unit = "run" if len(runs) > 1 else "test"
        findings = survivors_as_findings(
            verdict.suspects, runs, births, self.attachment, first=first, unit=unit
        )
        found = f"in {len(runs)} runs of the test body" if len(runs) > 1 else "after the test body"
        # Each run has broken the limit; what the runs add up to is another matter.
        self._found(counted(findings, 0, self.filter_fn), Steps(count=len(kept)), found)

    def _found(self, findings: tuple[Finding, ...], steps: Steps, how: str) -> None:
        new = tuple(finding for finding in findings if not self.is_known(finding))
        if not findings:
            return
        self.outcome.findings = findings
        self.outcome.status = "leak" if new else "known"
        if new and self.fails:
            found = f"{how}; limit {format_bytes(self.plan.limit)} a call site"
            raise LeakError(leak_report(new, steps), found)


def _bytes(runs: list[Kept]) -> int:
    return sum(size for run in runs for _, size in run.values())


def reset_captured_logs(handlers: list[object]) -> None:
    """Lets go of the records that pytest has kept of the run before: a run finds its log as empty as the
    first did."""
    for handler in handlers:
        with suppress(AttributeError):
            handler.records.clear()  # type: ignore[attr-defined]
