"""Signals that end a script: the report comes first, and then they do what they would have done."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import types
from collections.abc import Callable, Iterator

DEADLY = (signal.SIGTERM, signal.SIGHUP)


class SignalWatch:
    """While on, a deadly signal first calls `report`, then kills the process as it would have.

    The report is made in the handler: the frames still stand, and no `except` of the script can swallow the
    signal. A handler of the script's own replaces ours, and forked children have the default one. To be used
    from the main thread; a main thread that never comes back from C never runs the handler.
    """

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        self._busy = False
        self._pending: int | None = None
        self._forking = threading.local()

    def install(self) -> None:
        """Takes over the deadly signals that nobody handles or ignores."""
        for number in DEADLY:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._handle)
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork,
            after_in_child=self._after_fork_in_child,
        )

    @contextlib.contextmanager
    def postponed(self) -> Iterator[None]:
        """A report is being made, the last one: a first signal waits until it is out, a second one does
        not."""
        self._busy = True
        try:
            yield
        finally:
            self._restore()
            if self._pending is not None:
                os.kill(os.getpid(), self._pending)

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        del frame  # held here it would be one more holder of the script's locals
        if self._busy and self._pending is None:
            self._pending = number
            return
        try:
            if not self._busy:
                self._busy = True
                self._report()
        finally:
            self._restore()
            os.kill(os.getpid(), number)

    def _restore(self) -> None:
        for number in DEADLY:
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL)

    def _before_fork(self) -> None:
        """A signal to the child that comes before it has the default handler would be lost: Python drops what
        comes early in a child. It is held back until then."""
        self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, DEADLY)

    def _after_fork(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._forking.mask)

    def _after_fork_in_child(self) -> None:
        self._restore()
        self._after_fork()
