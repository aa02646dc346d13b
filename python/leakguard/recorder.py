"""When a watched run is written down: every step into a capture file, and now and then what is known so far."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from leakguard._native import core
from leakguard.capture import CaptureWriter
from leakguard.recording import Recording
from leakguard.report import Advice
from leakguard.step_rows import RowMaker, survivors_of

__all__ = ["Recorder", "command_line"]

FIRST_SECONDS, EVERY_SECONDS = 1.0, 2.0
"""When the first picture is due, and the least time between two."""

BUDGET = 0.01
"""Share of the time that pictures may take."""

MOST_COUNTED = 20_000
"""Live blocks up to which a picture during the run tells what survives of each step: it looks at each of them."""


class Recorder:
    """Feeds one capture file from the marks of `watch`. `picture(final)` is what is known of the run; it is asked for
    with final=False during the run and must be cheap then. `tell` gets a sentence when the file cannot be written."""

    def __init__(
        self,
        path: Path,
        watch: core.Watch,
        picture: Callable[[], Recording],
        tell: Callable[[str], None],
    ) -> None:
        self._watch = watch
        self._picture = picture
        self._tell = tell
        self._told = False
        self._writer = CaptureWriter(path, command=command_line())
        self._base = watch.base
        self._maker = RowMaker(watch.base)
        self._owner = os.getpid()
        self._due = FIRST_SECONDS
        self._survivors: dict[tuple[str, int], int] = {}

    def step_ended(self, elapsed: float, fresh: bool) -> None:
        """After each mark. `fresh` says that something has just come under suspicion."""
        if os.getpid() != self._owner:
            return
        self._put_rows()
        if elapsed >= self._due or (fresh and self._due == FIRST_SECONDS):
            began = time.perf_counter()
            few = sum(core.counts(device)[0] for device in core.devices()) <= MOST_COUNTED
            self._writer.put(self._picture(), self._changed_survivors() if few else {})
            self._due = elapsed + max(EVERY_SECONDS, (time.perf_counter() - began) / BUDGET)
        self._complain()

    def finish(self, recording: Recording) -> None:
        """The last report, and the end of writing."""
        if os.getpid() != self._owner:
            return
        self._put_rows()
        self._writer.put(recording, self._changed_survivors(), final=True)
        self._complain()
        self._writer.close()

    def close(self) -> None:
        """Ends writing without a report."""
        self._writer.close()

    def advice(self) -> tuple[Advice, ...]:
        """What a report has to say of the file."""
        trouble = self._writer.trouble
        return (Advice(topic="capture", text=self._sentence(trouble)),) if trouble else ()

    def _put_rows(self) -> None:
        if self._watch.base != self._base:
            self._base = self._watch.base
            self._maker = RowMaker(self._base)
            self._survivors.clear()
            self._writer.restart()
        self._writer.put_steps(self._maker.rows(self._watch.rows(self._maker.next)))

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


def command_line() -> str | None:
    """What is run, as one would type it."""
    words = [word for word in sys.argv if isinstance(word, str)] if isinstance(sys.argv, list) else []
    return (
        shlex.join([os.path.relpath(words[0]) if os.path.isabs(words[0]) else words[0], *words[1:]])
        if words
        else None
    )
