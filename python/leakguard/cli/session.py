"""One watched run: watching begins, the script runs, and the report comes out once, whatever ends the
script."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar

from leakguard.cli.endings import Ending, release_frames, run_to_end
from leakguard.cli.progress import Progress
from leakguard.cli.signals import SignalWatch
from leakguard.cli.target import Target
from leakguard.live_files import removed
from leakguard.recording import Recording
from leakguard.report import Report, ReportError, unwatched
from leakguard.report_file import report_path, write_text

if TYPE_CHECKING:
    from leakguard.guard import Detail

Result = TypeVar("Result")

SWITCHED_OFF = ("leakguard is switched off by LEAKGUARD=0", "unset LEAKGUARD and run it again")
INTERRUPTED = ("the report was interrupted", "run it again and give the report the time it needs")
FAILED_NEXT = "nothing is wrong with the script: please report this failure, and what the script imports"


class Guard(Protocol):
    """What a session asks of `leakguard.guard.watch`."""

    def report(self) -> Report:
        """The report on what has been seen so far; may be called from a signal handler."""

    def recording(self) -> Recording:
        """The report with all that a page shows beside it."""

    def stop(self) -> None:
        """Ends watching."""


class Session:
    """Runs `target` under watch, and brings the report out on stderr and, where they are given, to `file` and as a page
    to `page`. The guard writes the file of the pattern `capture` as the run goes.

    No failure in here reaches the script: it is told in the report instead.
    """

    def __init__(
        self,
        target: Target,
        file: Path | None,
        *,
        page: Path | None = None,
        progress: bool = False,
        detail: Detail = "lines",
        capture: str | None = None,
    ) -> None:
        self.status: str | None = None
        self._target = target
        self._file = file
        self._page = page
        self._capture = capture
        self._wants_progress = progress
        self._detail = detail
        self._progress: Progress | None = None
        self._owner = os.getpid()
        self._folder = os.getcwd()
        self._import_path = list(sys.path)
        self._stderr = sys.stderr
        self._guard: Guard | None = None
        self._fault: str | None = None
        self._signals = SignalWatch(self._finish)

    def run(self) -> Ending:
        """The script's ending; by then the report is out. Raises TargetError when there is nothing to run."""
        if (old := self._capture_file()) is not None:
            removed(old)  # that of an earlier run is not to be taken for this one's
        if os.environ.get("LEAKGUARD") == "0":
            return self._run_unwatched()
        self._begin()
        ending = run_to_end(self._target.run)
        if os.getpid() == self._owner:  # not a forked child of the script that unwinds to here
            try:
                with self._signals.postponed():
                    self._finish()
            except KeyboardInterrupt:
                return Ending(1, interrupted=True)
        return ending

    def _run_unwatched(self) -> Ending:
        ending = run_to_end(self._target.run)
        if os.getpid() == self._owner:
            self._save(Recording(report=unwatched(*SWITCHED_OFF)))
        return ending

    def _begin(self) -> None:
        try:
            from leakguard.guard import watch

            self._guard = watch(on_exit="never", wait_for_torch=True, detail=self._detail, save=self._capture)
        except Exception as error:
            self._fault = _named(error)
            print(f"leakguard: nothing is watched: {self._fault}", file=self._stderr)
        else:
            if self._wants_progress:
                self._progress = Progress(getattr(self._guard, "progress", None), self._stderr)
                self._progress.start()
        self._signals.install()

    def _finish(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        recording = self._make_recording()
        self.status = recording.report.status
        import_path, sys.path[:] = list(sys.path), self._import_path
        try:
            self._save(recording)
            self._show(recording.report)
        finally:
            sys.path[:] = import_path
        if self._guard is not None:
            with contextlib.suppress(Exception):  # the process ends: there is nothing left to protect
                self._guard.stop()

    def _make_recording(self) -> Recording:
        if self._guard is not None:
            try:
                if self._page is None:
                    return Recording(report=_with_memory(self._guard.report))
                return replace(_with_memory(self._guard.recording), command=self._target.command)
            except KeyboardInterrupt:
                return Recording(report=unwatched(*INTERRUPTED))
            except Exception as error:
                self._fault = _named(error)
        report = unwatched(f"leakguard itself failed: {self._fault}", FAILED_NEXT, failures=1)
        return Recording(report=report)

    def _save(self, recording: Recording) -> None:
        if (file := self._file) is not None:
            self._file = self._written(file, lambda: recording.report.save(file))
        if (page := self._page) is not None:
            self._page = self._written(page, lambda: write_text(page, recording.to_html(folder=self._folder)))
        if (capture := self._capture_file()) is not None and not capture.exists():  # watching never began
            from leakguard.capture import write_capture

            if self._written(capture, lambda: write_capture(capture, recording)) is None:
                self._capture = None

    def _written(self, path: Path, write: Callable[[], None]) -> Path | None:
        """`path` when it has been written; else the reason is told."""
        try:
            _with_memory(write)
        except ReportError as error:
            print(f"leakguard: {error}", file=self._stderr)
        except Exception as error:
            print(f"leakguard: {path} was not written: {_named(error)}", file=self._stderr)
        else:
            return path
        return None

    def _show(self, report: Report) -> None:
        """The script may have left a closed stream, modules of our names, or no memory: then fewer words
        do."""
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        try:
            with _fresh(self._stderr) as stream:
                try:
                    _with_memory(lambda: self._print(report, stream))
                except Exception:
                    print(f"{report.status.upper()}  {report.why}\nnext  {report.next}", file=stream)
        except (OSError, ValueError):
            return  # nobody can read it

    def _saved(self) -> list[Path]:
        files = (self._file or self._capture_file(), self._page)
        return [path for path in files if path is not None]

    def _capture_file(self) -> Path | None:
        return None if self._capture is None else report_path(self._capture)

    def _print(self, report: Report, stream: TextIO) -> None:
        from leakguard.render.text import print_line, print_report

        if report.status == "clean":
            print_line(report, stream, saved=self._saved(), folder=self._folder)
        else:
            rank = os.environ.get("RANK")
            title = f"leakguard, {Path(self._target.name).name}" + (
                f", rank {rank}" if rank is not None else ""
            )
            print_report(report, stream, title=title, saved=self._saved(), folder=self._folder)


def _with_memory(action: Callable[[], Result]) -> Result:
    """The result of `action`, tried again without what the failed script still holds when memory runs out."""
    try:
        return action()
    except MemoryError:
        release_frames()
        return action()


@contextlib.contextmanager
def _fresh(stream: TextIO) -> Iterator[TextIO]:
    """The same file through a stream of its own: a signal may have stopped the script while it was printing,
    and Python's streams are not to be entered twice. A stream without a file is used as it is."""
    with contextlib.suppress(Exception):
        stream.flush()
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        yield stream
        return
    with open(descriptor, "w", encoding=stream.encoding, errors="backslashreplace", closefd=False) as fresh:
        yield fresh


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
