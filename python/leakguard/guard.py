"""Watching: one Guard to a process, from `watch()` to `stop()`."""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from leakguard import caller, report_file
from leakguard.capture_file import check_writable, is_capture_name
from leakguard.memory_snapshot import Snapshot
from leakguard.protection import Protection
from leakguard.recording import Recording
from leakguard.report import Report, ReportError, Steps, not_begun, not_made, unwatched
from leakguard.step_table import StepDiff, StepTable
from leakguard.torch_import import when_torch_loads

if TYPE_CHECKING:
    import torch

    from leakguard.engine import Engine
    from leakguard.memory_log import Sink
    from leakguard.ownership import Owners, Why
    from leakguard.step_sample import StepSample

__all__ = ["Guard", "current", "step", "watch", "watch_for_a_while"]

Detail = Literal["lines", "ops"]
OnExit = Literal["if-problem", "always", "never"]

_current: Guard | None = globals().get("_current")  # this module may be reloaded while a Guard watches


def watch(
    *modules: torch.nn.Module,
    detail: Detail = "lines",
    user_code: Iterable[str] = (),
    save: str | Path | None = None,
    on_exit: OnExit = "if-problem",
    wait_for_torch: bool = False,
) -> Guard:
    """Begins to watch this process's tensor memory and returns the Guard.

    `modules` give their names to what is allocated in them; the training steps are found without them.
    `detail="ops"` also names the operator that made each block, for several times the cost; a Guard that
    watches already keeps its own detail. `user_code` names installed packages whose lines count as the user's
    own. `save` is a file: a capture of the run, written as it goes, when the name ends in `.leakguard`, `.lg` or
    `.sqlite`, and otherwise the report as JSON, written at the end. `{rank}` and `{pid}` in its name are filled in, and
    under torchrun the rank is added when `{rank}` is not there. `on_exit` says when the report is printed to stderr at
    the end of the process: `if-problem` (status leak or warning), `always` or `never`. With `wait_for_torch` nothing is
    imported: watching begins when the program imports torch.

    A second call while one Guard watches adds its modules to that Guard and returns it. With LEAKGUARD=0 in
    the environment, in forked children of a process that watches, in DataLoader workers and in spawned
    children that only import their parent's script, the Guard is inert.

    Raises ValueError for an option that is not known, TypeError for a module that is none, ReportError when
    `save` cannot be written, and ImportError when the native module does not fit the installed torch.
    """
    global _current
    if detail not in ("lines", "ops"):
        raise ValueError(f'detail is {detail!r}: "lines" or "ops"')
    if on_exit not in ("if-problem", "always", "never"):
        raise ValueError(f'on_exit is {on_exit!r}: "if-problem", "always" or "never"')
    idle = caller.why_inert()
    if idle:
        return Guard(inert=idle)
    if (present := current()) is not None:
        present.add(*modules)
        return present
    file = None if save is None else report_file.report_path(str(save))
    if file is not None:
        check_writable(file)
    guard = Guard(save=file, on_exit=on_exit, live=True)
    if wait_for_torch and not modules:
        when_torch_loads(functools.partial(guard.attach_quietly, _names(user_code), detail))
    else:
        guard.attach(modules, _names(user_code), detail)
    _current = guard
    return guard


def watch_for_a_while(*, seek_modules: bool) -> Guard | None:
    """A Guard for a test or an assertion, which ends it; None in a process that is watched already or must
    not be."""
    global _current
    if current() is not None or caller.why_inert() is not None:
        return None
    guard = Guard()
    guard.attach((), seek_modules=seek_modules)
    _current = guard
    return guard


def current() -> Guard | None:
    """The Guard that watches this process now; in a forked child there is none."""
    return _current if _current is not None and _current.active and not _current.is_forked else None


def step() -> None:
    """Marks the end of a training step; for loops that have no optimizer, or whose steps are found wrongly.
    Does nothing while nobody watches."""
    guard = current()
    if guard is not None:
        guard.step()


def _names(user_code: Iterable[str]) -> tuple[str, ...]:
    return (user_code,) if isinstance(user_code, str) else tuple(user_code)


class Guard:
    """Watches from `watch()` until `stop()`, the end of a `with` block, or the end of the process."""

    def __init__(
        self,
        *,
        save: Path | None = None,
        on_exit: OnExit = "never",
        inert: str | None = None,
        live: bool = False,
    ) -> None:
        captures = is_capture_name(save or "")
        self._save, self._capture = (None if captures else save), (save if captures else None)
        self._live = live
        self._on_exit = on_exit
        self._inert = inert
        self._engine: Engine | None = None
        self._protection = Protection()
        self._began = time.time()
        self._process = os.getpid()
        self._last: Report | None = None
        self._last_table = StepTable(steps=Steps())
        self._peaks: dict[str, int] = {}
        self._last_sample: StepSample | None = None
        self.active = inert is None
        if self.active:
            atexit.register(self._at_exit)

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked child's copy of a Guard that watches the parent."""
        return os.getpid() != self._process

    @property
    def is_inert(self) -> bool:
        """Whether leakguard is switched off here, and nothing is watched."""
        return self._inert is not None

    def attach(
        self,
        modules: Iterable[torch.nn.Module],
        user_code: Iterable[str] = (),
        detail: Detail = "lines",
        *,
        seek_modules: bool = True,
    ) -> None:
        """Loads the native module and begins to watch. What raises here leaves nothing behind."""
        try:
            from leakguard.engine import Engine

            self._engine = Engine(modules, user_code, self.guarded, seek_modules, operators=detail == "ops")
            self.guarded(self._engine.begin_telling)(
                self._capture, self._live, self._protection.tell, self._protection.spent
            )
        except BaseException:
            self.active = False
            atexit.unregister(self._at_exit)
            raise

    def attach_quietly(self, user_code: Iterable[str] = (), detail: Detail = "lines") -> None:
        """As `attach`, from inside somebody's `import torch`: a failure is kept for the report."""
        try:
            if self.active and not self.is_forked:
                self.attach((), user_code, detail)
        except Exception as error:
            self._protection.failed(error)

    def add(self, *modules: torch.nn.Module) -> None:
        """More root modules. Raises TypeError for an object that is none."""
        if self._engine is not None and modules:
            self._engine.add_modules(modules)

    def step(self) -> None:
        """Marks the end of a training step; from now on only such steps count."""
        if self._engine is not None and self.active:
            self.guarded(self._engine.explicit_step)()

    @property
    def step_count(self) -> int:
        """Training steps seen so far."""
        if self._last is not None:
            return self._last.steps.count
        return self._engine.step_count if self._engine is not None else 0

    def peaks(self) -> dict[str, int]:
        """The most bytes that were live at once on each device since watching began."""
        return self._engine.peaks() if self._engine is not None else self._peaks

    def restart(self) -> None:
        """Sets aside what was seen so far, as if watching began now."""
        if self._engine is not None and self.active:
            self._engine.restart()

    def rest(self) -> None:
        """Sees no step until `renew()`, and leaves its place to another Guard. Stays attached."""
        global _current
        if self._engine is not None:
            self._engine.rest()
        if _current is self:
            _current = None

    def renew(self) -> bool:
        """Watches again after `rest()`, with nothing seen yet. False when it was stopped or another Guard
        watches."""
        global _current
        if self._engine is None or not self.active or current() is not None:
            return False
        self._engine.renew()
        self._protection.clear()
        _current = self
        return True

    def report(self) -> Report:
        """The verdict on what has been seen so far; after `stop()`, on what had been seen by then. An
        internal failure is in the report, and is not raised."""
        if self._inert is not None:
            return unwatched(self._inert, "run it where leakguard is not switched off")
        if self._last is not None:
            return self._last
        if self._engine is None:
            return not_begun(self._protection.failures)
        try:
            return self._engine.report(*self._protection.spent())
        except MemoryError:  # the caller may be able to make room
            raise
        except Exception as error:
            self._protection.failed(error)
        return not_made(self._protection.failures)

    def table(self) -> StepTable:
        """One row a step, or for several steps of a long run, as it is now; after `stop()` as it was then. Print
        it, or leave it as the last line of a notebook cell."""
        return self._last_table if self._engine is None else self._engine.table()

    def show_live(self) -> None:
        """Shows the table in the notebook cell that runs, and brings it up to date there until the cell ends. Needs
        IPython."""
        from leakguard.notebook import show_live

        show_live(self)

    def follow(self, follower: Callable[[], None]) -> Callable[[], None]:
        """`follower` is called after each step, until the function that this returns is called."""
        followers = self._engine.followers if self._engine is not None else []
        followers.append(follower)
        return functools.partial(followers.remove, follower)

    def snapshot(self, *, holders: bool = False) -> Snapshot:
        """What memory is in use now: the allocators' own figures, and what made the live blocks; with `holders`, for
        one more walk over the Python heap, also who holds them and in what shape. Two snapshots are compared by
        `earlier.diff(later)`. After `stop()` it is empty."""
        if self._engine is None:
            return Snapshot(step=self.step_count)
        return self._engine.snapshot(holders=holders)

    def recording(self) -> Recording:
        """All that is known so far as one value: report, steps, memory in use, the lines of source that findings name.
        `recording().to_html()` is a page of it. After `stop()` it has report and steps."""
        report = self.report()
        recording = Recording(report=report, table=self._last_table if self._last_table.rows else None)
        if self._engine is not None:
            try:
                recording = self._engine.recording(report)
            except Exception as error:
                self._protection.failed(error)
        return replace(recording, began=self._began)

    def sample_step(self) -> None:
        """Asks for the next whole step to be seen from inside: births and deaths are written down, and some walks over
        the heap tell what is alive; it takes longer than others. `sample()` has the result."""
        if self._engine is not None and self.active:
            self._engine.sample_step()

    def sample(self) -> StepSample | None:
        """What was alive in the last sampled step, after forward, in mid-backward, at its end and at its peak, by
        category and module: print it. None while there is none."""
        return self._last_sample if self._engine is None else self._engine.sample()

    def diff(self, from_step: int, to_step: int) -> StepDiff:
        """What call sites and modules have more or less at the end of `to_step` than at the end of `from_step`.

        Of a long run not every step is kept; the comparison names the ones it took: the wanted one or the nearest
        kept one before it. Raises ValueError for a step that has not been seen, and after `stop()`.
        """
        if self._engine is None:
            raise ValueError("nobody watches any more: compare steps before Guard.stop()")
        return self._engine.diff(from_step, to_step)

    def log(self, step: int | None = None, interval: int = 100, to: Sink = None) -> None:
        """One line on the memory in use, in every `interval`-th step, and the verdict when the program ends. `step` is
        by default the number of steps seen so far. See `leakguard.log_gpu_memory`."""
        from leakguard.memory_log import log_memory_of

        if not self.is_inert:
            log_memory_of(self, self.step_count if step is None else step, interval, to)

    def why(self, tensor: torch.Tensor) -> Why:
        """What keeps `tensor` alive beside the variable that it is handed over in: print it. One walk over the
        Python heap; works after `stop()` too.

        Raises TypeError for what is no tensor, ValueError for a tensor without memory of its own (meta, sparse).
        """
        from leakguard.owners import why

        return why(tensor, self._engine.first_step if self._engine is not None else None)

    def owners(self) -> Owners:
        """The live blocks that were born under watch, by who holds them: print it. One walk over the Python heap, for
        the 2 000 largest blocks; the table says how many are left out."""
        from leakguard.owners import owners

        return owners()

    def progress(self) -> str:
        """A few words on the run so far; cheap, and callable from any thread."""
        return self._engine.progress() if self._engine is not None else "torch has not been imported"

    def stop(self) -> None:
        """Ends watching: allocator, hooks and wrapped functions are put back. The report stays. May be called
        twice."""
        try:
            if self.active and self._engine is not None and not self.is_forked:
                self._last = self.report()
                self._last_table = self._engine.table()
                self.guarded(self._engine.end_telling)(self._last)
                if self._save is not None:
                    self._last.save(self._save)
        except (ReportError, MemoryError) as error:
            self._protection.failed(error)
        finally:
            self.discard()

    def discard(self) -> None:
        """As `stop`, without a report."""
        global _current
        if not self.active:
            return
        self.active = False
        atexit.unregister(self._at_exit)
        if _current is self:
            _current = None
        if self._engine is not None and not self.is_forked:
            self._peaks = self._engine.peaks()
            self._last_sample = self._engine.sample()
            self.guarded(self._engine.stop)()
            self._engine = None

    def guarded(self, function: Callable[..., None]) -> Callable[..., None]:
        """`function` for torch to call: what it raises ends here and is counted, and its time is
        leakguard's."""
        return self._protection.guarded(function)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _at_exit(self) -> None:
        if self.is_forked or not self.active:
            return
        try:
            self.stop()
            report = self._last
            wanted = self._on_exit == "always" or (
                self._on_exit == "if-problem" and report is not None and report.status in ("leak", "warning")
            )
            if report is not None and wanted:
                from leakguard.render.text import print_report

                print_report(report, sys.stderr)
        except Exception as error:
            self._protection.failed(error)
