"""How a script may end, and how it is let end as it would have without leakguard.

Its traceback is printed by its own `sys.excepthook` and shows none of our frames; its exit code is its own; a
signal that would have killed it kills it, once the report is out.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass

from leakguard.cli.target import TargetError


@dataclass(frozen=True)
class Ending:
    """The exit code, and whether Ctrl-C has ended the script: then the process ends by that signal."""

    code: int
    interrupted: bool = False


def run_to_end(body: Callable[[], None]) -> Ending:
    """Runs `body` and does what the interpreter does when it returns, exits or raises, but for ending the
    process. Raises TargetError when there is nothing to run."""
    raised = _outcome(body)
    if isinstance(raised, TargetError):
        raise raised
    ending = Ending(0) if raised is None else _end_of(raised)
    del raised  # the report must not find the script's locals held by this frame
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


def _outcome(body: Callable[[], None]) -> BaseException | None:
    """What `body` raises; it is no longer being handled then, as little as at the interpreter's top level."""
    try:
        body()
    except BaseException as error:
        return error
    return None


def _end_of(error: BaseException) -> Ending:
    if isinstance(error, SystemExit):
        return Ending(_exit_code(error.code))
    error.__traceback__ = trace = _without_ours(error.__traceback__)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.last_exc = error  # type: ignore[attr-defined]  # Python 3.12
    broken = _outcome(lambda: sys.excepthook(type(error), error, trace))
    if isinstance(broken, SystemExit):
        return Ending(_exit_code(broken.code))
    if broken is not None:
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exception(broken.with_traceback(_without_ours(broken.__traceback__)))
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(error)
    return Ending(1, interrupted=isinstance(error, KeyboardInterrupt))


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def _without_ours(trace: types.TracebackType | None) -> types.TracebackType | None:
    while trace is not None and _is_ours(trace.tb_frame):
        trace = trace.tb_next
    return trace


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
