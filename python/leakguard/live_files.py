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

__all__ = ["LiveRun", "folders", "is_wanted", "live_path", "live_runs", "made_path", "removed"]

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


def live_path(pid: int) -> Path | None:
    """The file of a process; None when it has none."""
    files = (folder / f"{pid}{SUFFIX}" for folder in folders() if _is_private(folder))
    return next((file for file in files if file.exists()), None)


def made_path() -> Path:
    """This process's file, in a folder that nobody else may look into. Raises OSError when there is none to be had."""
    folder = folders()[0]
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(folder):
        raise PermissionError(f"{folder} is not a folder of this user alone")
    live_runs()  # what killed processes have left goes
    return folder / f"{os.getpid()}{SUFFIX}"


def live_runs() -> tuple[LiveRun, ...]:
    """The watched processes of this user, oldest first. Takes away what killed ones have left."""
    files = [file for folder in folders() if _is_private(folder) for file in folder.glob(f"*{SUFFIX}")]
    runs = []
    for file in sorted(files, key=_born):
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


def folders() -> list[Path]:
    """Where a process may tell: the first of them. A job may lack the login's variables, and has another one then."""
    user = os.getuid()
    runtime = [os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{user}"]
    found = [Path(base) / "leakguard" for base in runtime if base and os.access(base, os.W_OK)]
    found += [Path(base) / f"leakguard-{user}" for base in (tempfile.gettempdir(), "/tmp")]
    return list(dict.fromkeys(found))


def removed(path: Path) -> None:
    """Takes a capture away, with its companions."""
    for part in PARTS:
        with contextlib.suppress(OSError):
            os.unlink(f"{path}{part}")


def _is_private(folder: Path) -> bool:
    """Whether it is a folder that nobody else can put anything into, or look into."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _born(file: Path) -> float:
    try:
        return file.stat().st_ctime
    except OSError:  # gone since
        return 0.0
