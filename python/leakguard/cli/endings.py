"""How a script may end, and how it is let end as it would have without leakguard.

Its traceback is printed by its own `sys.excepthook` and shows none of our frames; its exit code is its own; a
signal that would have killed it kills it, once the report is out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from leakguard.cli.target import TargetError

DEADLY = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Ending:
    """The exit code, and whether Ctrl-C has ended the script: then the process ends by that signal."""

    code: int
    interrupted: bool = False


def run_to_end(body: Callable[[], None]) -> Ending:
    """Runs `body` and does what the interpreter does when it returns, exits or raises, but for ending the
    process. Raises TargetError when there is nothing to run."""
    try:
        body()
        ending = Ending(0)
    except TargetError:
        raise
    except SystemExit as request:
        ending = Ending(_exit_code(request.code))
    except (
        BaseException
    ) as error:  # whatever a script may raise ends here, as at the interpreter's own top level
        _print_exception(error)
        ending = Ending(1, interrupted=isinstance(error, KeyboardInterrupt))
    _wait_for_threads()
    return ending


def leave(ending: Ending) -> int:
    """The exit code to end with. A script that Ctrl-C has ended lets its caller see that signal, as python
    does."""
    if ending.interrupted:
        sys.excepthook = lambda *_: None  # the traceback has been printed
        raise KeyboardInterrupt
    return ending.code


def release_frames() -> None:
    """Lets go of what the printed exception holds: memory, when there is none left."""
    held = getattr(sys, "last_traceback", None)
    if held is not None:
        traceback.clear_frames(held)
    sys.last_traceback = None


class SignalWatch:
    """While on, a deadly signal first calls `report`, then kills the process as it would have.

    The report is made in the handler: the frames still stand, and no `except` of the script can swallow the
    signal. A handler of the script's own replaces ours; forked children have the default one.
    """

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        self._owner = os.getpid()
        self._busy = False
        self._pending: int | None = None

    def install(self) -> None:
        """Takes over the deadly signals that nobody handles or ignores."""
        for number in DEADLY:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._handle)
        os.register_at_fork(after_in_child=self._restore)

    @contextlib.contextmanager
    def postponed(self) -> Iterator[None]:
        """A report is being made: a first signal waits until it is out, a second one does not."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            if self._pending is not None:
                self._die(self._pending)

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        del frame  # held here it would be one more holder of the script's locals
        if os.getpid() == self._owner:
            if self._busy and self._pending is None:
                self._pending = number
                return
            if not self._busy:
                self._report()
        self._die(number)

    def _die(self, number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _restore(self) -> None:
        for number in DEADLY:
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL)


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def _print_exception(error: BaseException) -> None:
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame):
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.last_exc = error  # type: ignore[attr-defined]  # Python 3.12
    try:
        sys.excepthook(type(error), error, trace)
    except BaseException as broken:  # the script's own hook; the interpreter says it in these words
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exception(broken)
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(error)


def _is_ours(frame: types.FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    return isinstance(module, str) and module.startswith(("leakguard.cli", "importlib", "zipimport"))


def _wait_for_threads() -> None:
    """Waits for the script's threads as the interpreter does at its end: one of them may be the training
    loop."""
    shutdown = getattr(threading, "_shutdown", None)
    if shutdown is not None and threading.current_thread() is threading.main_thread():
        with contextlib.suppress(KeyboardInterrupt):
            shutdown()
