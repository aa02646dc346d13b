"""A trial as a process of its own: the program under `leakguard run`, with some of its parts off.

The process leads a group of its own, and nothing of that group outlives the trial, however it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from leakguard.bisection import Outcome, Trial
from leakguard.components import VARIABLE, encoded
from leakguard.report import Report, ReportError, is_leak, load
from leakguard.wording import plural

__all__ = ["FreshTrials", "Stopped", "trial_of"]

POLL_SECONDS = 0.05
REPORT_SECONDS = 60.0
"""What a trial that is out of time gets to make its report."""

STOP_SECONDS = 3.0
"""What a trial gets to end when the bisect is stopped."""

ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b.*$", re.MULTILINE)
READ = 64 * 1024


class Stopped(BaseException):
    """The bisect was asked to stop in the middle of a trial; the trial has been ended."""


def _never() -> bool:
    return False


class FreshTrials:
    """Calling it with the parts that are off makes one trial.

    `target` is what follows `leakguard run`. A trial that takes longer than `timeout` seconds is ended as Ctrl-C would
    end it, and its report counts when it has come far enough. `stopped` is looked at all the time: once it is true,
    the trial is ended and Stopped raised.
    """

    def __init__(
        self,
        target: Sequence[str],
        *,
        timeout: float | None = None,
        stopped: Callable[[], bool] = _never,
    ) -> None:
        self._target = tuple(target)
        self._timeout = timeout
        self._stopped = stopped
        self._all_steps = 0  # of the first trial

    def __call__(self, off: frozenset[str]) -> Trial:
        """One trial, from start to end. Raises Stopped."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="leakguard-") as name:
            folder = Path(name)
            asked, errors = folder / "asked", folder / "errors"
            command = [sys.executable, "-m", "leakguard", "run", "--json", str(folder / "report.json")]
            environment = {**os.environ, VARIABLE: encoded(off, str(asked))}
            with errors.open("wb") as stream:
                code, cut = self._run([*command, *self._target], environment, stream)
            report = _report(folder)
            trial = self._judge(report, code, cut, _last_error(errors))
            self._all_steps = self._all_steps or trial.steps
            seconds = time.monotonic() - began
            return replace(trial, off=tuple(sorted(off)), asked=_names(asked), seconds=seconds)

    def _judge(self, report: Report | None, code: int, cut: bool, error: str) -> Trial:
        ending = f"it was ended after {self._timeout:g} s" if cut else _ending(code, error)
        if report is None:
            return Trial(off=(), outcome="undecided", why=f"{ending}, and there is no report")
        if report.status == "leak":
            return trial_of(report)
        steps = report.steps.count
        if cut and steps * 2 < self._all_steps:
            why = f"{ending}, in step {steps}, when the first trial had come to step {self._all_steps}"
            return Trial(off=(), outcome="undecided", steps=steps, why=why)
        if (code and not cut) or (cut and report.status == "inconclusive"):
            return Trial(
                off=(), outcome="undecided", steps=steps, why=f"{ending}, after {plural(steps, 'step')}"
            )
        return trial_of(report)

    def _run(
        self, command: Sequence[str], environment: dict[str, str], errors: IO[bytes]
    ) -> tuple[int, bool]:
        """Exit code, and whether time ran out."""
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        cut = False
        try:
            if not self._ends_within(process, self._timeout):
                cut = True
                process.terminate()  # the process alone: its workers must live while it makes its report
                self._ends_within(process, REPORT_SECONDS)
        except BaseException:
            _end_gently(process)
            raise
        finally:
            _end_group(process)
        return process.returncode, cut

    def _ends_within(self, process: subprocess.Popen[bytes], seconds: float | None) -> bool:
        until = None if seconds is None else time.monotonic() + seconds
        while not _has_ended(process):
            if self._stopped():
                raise Stopped
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(POLL_SECONDS)
        return True


def trial_of(report: Report) -> Trial:
    """What a report says, as a trial; which parts were off is not in it."""
    outcomes: dict[str, Outcome] = {"leak": "leak", "inconclusive": "undecided"}
    return Trial(
        off=(),
        outcome=outcomes.get(report.status, "clean"),
        bytes_per_step=sum(finding.bytes_per_step for finding in report.findings if is_leak(finding)),
        steps=report.steps.count,
        why=report.why,
        next=report.next,
    )


def _report(folder: Path) -> Report | None:
    for file in sorted(folder.glob("report*.json")):  # under torchrun the rank is in the name
        with contextlib.suppress(ReportError):
            return load(file)
    return None


def _names(file: Path) -> tuple[str, ...]:
    """The parts that the program asked for, in the order of asking, whichever of its processes did."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return tuple(dict.fromkeys(map(json.loads, lines)))


def _last_error(file: Path) -> str:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - READ))
        found = ERROR.findall(stream.read().decode("utf-8", "replace"))
    return found[-1] if found else ""


def _ending(code: int, error: str) -> str:
    if code < 0:
        return f"signal {signal.Signals(-code).name} ended it"
    said = f": {error}" if error else ""
    return f"it ended with exit code {code}{said}"


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has, without taking its exit code: as long as that waits, its number and its group are its own."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_gently(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while not _has_ended(process) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
