"""When a watched run is written down: every step into a capture file, and now and then what is known so far."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from leakguard import live_files
from leakguard._native import core
from leakguard.capture import CaptureWriter
from leakguard.found_survivors import found_survivors
from leakguard.phase_times import PhaseTimes
from leakguard.recording import Recording
from leakguard.report import Advice, ReportError
from leakguard.reserved_steps import ReservedSteps
from leakguard.step_rows import RowMaker, survivors_of

__all__ = ["LiveTeller", "Recorder", "Teller", "command_line"]

FIRST_SECONDS = 1.0
"""When the first picture is due."""

MOST_COUNTED = 20_000
"""Live blocks up to which a picture during the run tells what survives of each step: it looks at each of them."""


class Teller(Protocol):
    """What an engine tells of its steps."""

    def step_ended(self, elapsed: float, fresh: bool) -> None:
        """After each mark. `fresh` says that something has just come under suspicion."""

    def finish(self, last: Callable[[], Recording]) -> None:
        """The end, with all that is known."""

    def close(self) -> None:
        """The end, without a report."""

    def advice(self) -> tuple[Advice, ...]:
        """What a report has to say of it."""


class Due:
    """When the next picture is: at least `every` seconds after the last, and so late that they take no more than
    `budget` of the time."""

    def __init__(self, every: float, budget: float) -> None:
        self.every = every
        self.budget = budget
        self.at = FIRST_SECONDS

    def taken(self, elapsed: float, began: float) -> None:
        """A picture has been taken, from `began` on the performance counter."""
        self.at = elapsed + max(self.every, (time.perf_counter() - began) / self.budget)


class Recorder:
    """Feeds a capture file from the marks of `watch`. `picture()` is what is known of the run, cheaply; `tell` gets a
    sentence when the file cannot be written.

    Raises ReportError when the file cannot be created.
    """

    every = 2.0
    budget = 0.01

    def __init__(
        self,
        path: Path,
        watch: core.Watch,
        reserved: ReservedSteps,
        phases: PhaseTimes,
        picture: Callable[[], Recording],
        tell: Callable[[str], None],
    ) -> None:
        self._watch = watch
        self._reserved = reserved
        self._phases = phases
        self._picture = picture
        self._tell = tell
        self._told = False
        self._writer = CaptureWriter(path, command=command_line())
        self._base = watch.base
        self._maker = RowMaker(watch.base, phases.between)
        self._owner = os.getpid()
        self._due = Due(self.every, self.budget)
        self._survivors: dict[tuple[str, int], int] = {}
        self._busy = threading.Lock()

    def step_ended(self, elapsed: float, fresh: bool) -> None:
        """Writes the step, and a picture when one is due or suspicion is news."""
        if os.getpid() != self._owner or not self._busy.acquire(blocking=False):
            return  # another thread writes; this step comes with the next one
        try:
            self._tell_step(elapsed, fresh)
        finally:
            self._busy.release()

    def _tell_step(self, elapsed: float, fresh: bool) -> None:
        self._put_rows()
        if elapsed >= self._due.at or (fresh and self._due.at == FIRST_SECONDS):
            began = time.perf_counter()
            few = sum(core.counts(device)[0] for device in core.devices()) <= MOST_COUNTED
            self._writer.put(self._picture(), self._changed_survivors() if few else {})
            self._due.taken(elapsed, began)
        self._complain()

    def finish(self, last: Callable[[], Recording]) -> None:
        """Writes the last report."""
        if os.getpid() != self._owner:
            return
        self._put_rows()
        recording = last()
        shift = self._base - 1
        ends = [end + shift for end in self._writer.ends()]
        sums = found_survivors(recording.report.findings, ends, self._base)
        found = (
            None if sums is None else {(device, end - shift): size for (device, end), size in sums.items()}
        )
        self._writer.put(recording, self._changed_survivors(), found, final=True)
        self._complain()
        self._writer.close()

    def close(self) -> None:
        """Ends writing."""
        self._writer.close()

    def advice(self) -> tuple[Advice, ...]:
        """That the file is not written, when it is not."""
        trouble = self._writer.trouble
        return (Advice(topic="capture", text=self._sentence(trouble)),) if trouble else ()

    def _put_rows(self) -> None:
        if self._watch.base != self._base:
            self._base = self._watch.base
            self._maker = RowMaker(self._base, self._phases.between)
            self._survivors.clear()
            self._writer.restart()
        rows = self._maker.rows(self._watch.rows(self._maker.next))
        self._writer.put_steps(self._reserved.filled(rows, self._base))

    def _changed_survivors(self) -> dict[tuple[str, int], int]:
        shift = self._base - 1
        ends = [shift, *(last + shift for last in self._writer.ends())]
        sums = {
            (device, end - shift): size for (device, end), size in survivors_of(ends).items() if end > shift
        }
        gone = dict.fromkeys(self._survivors.keys() - sums.keys(), 0)
        changed = {key: size for key, size in sums.items() if self._survivors.get(key) != size} | gone
        self._survivors = sums
        return changed

    def _complain(self) -> None:
        trouble = self._writer.trouble
        if trouble is not None and not self._told:
            self._told = True
            self._tell(f"{self._sentence(trouble)}; the run goes on")

    def _sentence(self, trouble: str) -> str:
        return f"{self._writer.path} is not written any more: {trouble}"


class LiveTeller:
    """Keeps the file of the runtime folder, which `leakguard live` reads: a small picture, every second or so. Costs a
    comparison in between. What cannot be written is let be."""

    every = 1.0
    budget = 0.005

    def __init__(
        self,
        watch: core.Watch,
        reserved: ReservedSteps,
        phases: PhaseTimes,
        picture: Callable[[], Recording],
    ) -> None:
        self._watch = watch
        self._reserved = reserved
        self._phases = phases
        self._picture = picture
        self._writer: CaptureWriter | None = None
        self._began = time.time()
        self._owner = os.getpid()
        self._due = Due(self.every, self.budget)

    def step_ended(self, elapsed: float, fresh: bool) -> None:
        """Writes a picture when one is due."""
        del fresh
        if elapsed < self._due.at or os.getpid() != self._owner:
            return
        began = time.perf_counter()
        if self._writer is None:
            try:
                self._writer = CaptureWriter(
                    live_files.made_path(), command=command_line(), began=self._began
                )
            except (ReportError, OSError):
                self._due.at = float("inf")
                return
        rows = RowMaker(self._watch.base, self._phases.between).rows(self._watch.rows())
        self._writer.replace(self._reserved.filled(rows, self._watch.base), self._picture())
        self._due.taken(elapsed, began)

    def finish(self, last: Callable[[], Recording]) -> None:
        """Takes the file away: the process is not watched any more."""
        del last
        self.close()

    def close(self) -> None:
        """Takes the file away."""
        if self._writer is not None and os.getpid() == self._owner:
            self._writer.close()
            live_files.removed(self._writer.path)
            self._writer = None

    def advice(self) -> tuple[Advice, ...]:
        """Nothing: nobody has asked for the file."""
        return ()


def command_line() -> str | None:
    """What is run, as one would type it behind `python`."""
    words = [word for word in sys.argv if isinstance(word, str)] if isinstance(sys.argv, list) else []
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and isinstance(spec.name, str):
        return shlex.join(["-m", spec.name.removesuffix(".__main__"), *words[1:]])
    if not words:
        return None
    near = os.path.relpath(words[0])
    return shlex.join([words[0] if near.startswith(os.pardir) else near, *words[1:]])
