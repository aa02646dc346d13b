"""Where watched processes tell how they fare: a small capture file for each in the user's runtime folder.

It is removed when the process stops watching. What a killed process has left is recognised by its process, and removed
by the next one that looks.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from leakguard.capture_file import WRITTEN_HERE, identity, is_running, opened, run_in
from leakguard.report_file import ReportError

__all__ = ["LiveRun", "is_wanted", "live_path", "live_runs", "removed"]

SUFFIX = ".leakguard"
PARTS = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A watched process that runs, and its file."""

    pid: int
    path: Path
    command: str | None


def is_wanted() -> bool:
    """Whether processes are to tell: not with LEAKGUARD_LIVE=0 in the environment."""
    return os.environ.get("LEAKGUARD_LIVE") != "0"


def live_path(pid: int) -> Path:
    """The file of a process."""
    return _folder() / f"{pid}{SUFFIX}"


def made_path() -> Path:
    """This process's file, in a folder that nobody else may look into. Raises OSError when there is none to be had."""
    folder = _folder()
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder of this user alone")
    live_runs()  # what killed processes have left goes
    return live_path(os.getpid())


def live_runs() -> tuple[LiveRun, ...]:
    """The watched processes of this user, oldest first. Takes away what killed ones have left."""
    runs = []
    try:
        files = sorted(_folder().glob(f"*{SUFFIX}"), key=lambda file: file.stat().st_ctime)
    except OSError:
        return ()
    for file in files:
        with contextlib.suppress(ReportError, OSError):
            if identity(file) in WRITTEN_HERE:
                continue
            with opened(file, patience=0.2) as connection:
                run = run_in(connection)
            if is_running(run):
                runs.append(LiveRun(run["pid"], file, run.get("command")))
            elif run.get("host") == os.uname().nodename:
                removed(file)
    return tuple(runs)


def removed(path: Path) -> None:
    """Takes a capture away, with its companions."""
    for part in PARTS:
        with contextlib.suppress(OSError):
            os.unlink(f"{path}{part}")


def _folder() -> Path:
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given and os.path.isdir(given):
        return Path(given) / "leakguard"
    return Path(tempfile.gettempdir()) / f"leakguard-{os.getuid()}"
