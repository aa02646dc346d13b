"""The capture file, one SQLite file that tells a run while it goes: what it looks like, how it is opened to be read.

Read without torch, and while it is being written. A run that was killed leaves its last step in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leakguard import report_file
from leakguard.report_file import ReportError

__all__ = [
    "APPLICATION",
    "SCHEMA",
    "TABLES",
    "WRITTEN_HERE",
    "check_writable",
    "identity",
    "is_capture",
    "is_capture_name",
    "is_running",
    "opened",
    "process",
    "report_in",
    "run_in",
    "steps_in",
]

HOW_TO_CAPTURE = "Make one with: python -m leakguard run -o run.leakguard SCRIPT"

SUFFIXES = (".leakguard", ".lg", ".sqlite")
"""A file that is to be written is a capture when its name ends so, and a JSON report otherwise."""

APPLICATION = 0x6C6B6764
"""The file's `application_id`: the letters lkgd."""

SCHEMA = 1
"""The file's `user_version`. Tables and columns may be added to it; none is renamed or dropped."""

TABLES = """
CREATE TABLE run (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE device (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE step (
  device INTEGER NOT NULL REFERENCES device, last INTEGER NOT NULL, first INTEGER NOT NULL,
  trough INTEGER NOT NULL, peak INTEGER NOT NULL, allocated INTEGER NOT NULL, consumed INTEGER NOT NULL,
  survivors INTEGER, change INTEGER, seconds REAL, reserved INTEGER,
  found INTEGER, backward_seconds REAL, optimizer_seconds REAL,
  PRIMARY KEY (device, last)
) WITHOUT ROWID;
CREATE TABLE site (
  id INTEGER PRIMARY KEY, device TEXT NOT NULL,
  file TEXT, line INTEGER, function TEXT, expression TEXT, op TEXT, module TEXT, phase TEXT, via TEXT
);
CREATE TABLE growth (
  site INTEGER PRIMARY KEY REFERENCES site, bytes INTEGER NOT NULL, blocks INTEGER NOT NULL,
  live_bytes INTEGER NOT NULL, live_blocks INTEGER NOT NULL
);
CREATE TABLE source (file TEXT NOT NULL, first INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (file, first));
CREATE TABLE report (id INTEGER PRIMARY KEY CHECK (id = 1), step INTEGER, final INTEGER, json TEXT NOT NULL);
CREATE TABLE snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), json BLOB NOT NULL);
"""
"""`docs/capture-file.md` says what each column means."""

MAGIC = b"SQLite format 3\0"
PATIENCE = 2.0
"""Seconds that a reader waits where a writer holds the file (without a write-ahead log)."""


WRITTEN_HERE: set[tuple[int, int]] = set()
"""Captures that this process writes: to open and close one but by SQLite would drop the writer's locks."""


def is_capture_name(name: str | Path) -> bool:
    """Whether what is written under this name is a capture, and not a JSON report."""
    return Path(name).suffix.lower() in SUFFIXES


def is_capture(path: str | Path) -> bool:
    """Whether an SQLite file is there."""
    try:
        if identity(path) in WRITTEN_HERE:
            return True
        if not Path(path).is_file():
            return False
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def check_writable(path: Path) -> None:
    """Raises ReportError when a report, or a capture where the name says so, could not be written to `path`. A capture
    is replaced, any other SQLite file or text is not."""
    report_file.check_writable(path)
    if is_capture_name(path) and path.exists() and path.stat().st_size:
        if not is_capture(path):
            raise ReportError(f"{path} is there and is no capture: it is not overwritten. Name another file.")
        with opened(path):
            pass


def identity(path: str | Path) -> tuple[int, int]:
    """What tells a file from all others. Raises OSError when there is none."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def process() -> dict[str, Any]:
    """What tells this process from every other one, as the table `run` has it."""
    return {"pid": os.getpid(), "host": os.uname().nodename, "started": _started(os.getpid())}


def is_running(run: Mapping[str, Any]) -> bool:
    """Whether the process that writes the file is alive, and a process of this machine."""
    pid = run.get("pid")
    return (
        isinstance(pid, int)
        and run.get("host") == os.uname().nodename
        and run.get("ended") is None
        and run.get("started") == _started(pid) is not None
    )


@contextlib.contextmanager
def opened(path: str | Path, *, patience: float = PATIENCE) -> Iterator[sqlite3.Connection]:
    """A connection that reads one state of the capture, however it is being written. Raises ReportError when it is
    none or is damaged, here or inside the block."""
    try:
        with contextlib.closing(_connection(Path(path), patience)) as connection:
            _check(connection, path)
            yield connection
    except (sqlite3.Error, json.JSONDecodeError) as error:
        raise ReportError(f"{path} cannot be read as a capture: {error}. {HOW_TO_CAPTURE}") from error


def _connection(path: Path, patience: float) -> sqlite3.Connection:
    """One that only reads; where a killed writer has left something to be put right, one that may write."""
    wal = Path(f"{path}-wal")
    try:
        connection = _connected(path, "ro", patience)
        if not wal.exists() or not _was_killed(run_in(connection)):
            return connection
        connection.close()
    except sqlite3.OperationalError:  # half a transaction is to be rolled back
        return _connected(path, "rw", patience)
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_connected(path, "rw", patience)) as mending:
        mending.rollback()
        mending.execute("PRAGMA journal_mode = DELETE")  # one file again
    return _connected(path, "ro", patience)


def _connected(path: Path, mode: str, patience: float) -> sqlite3.Connection:
    """Inside a transaction that has read."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None)
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def run_in(connection: sqlite3.Connection) -> dict[str, Any]:
    """The facts of the run."""
    return dict(connection.execute("SELECT key, value FROM run"))


def steps_in(connection: sqlite3.Connection) -> int:
    """How many steps have ended."""
    return int(connection.execute("SELECT coalesce(max(last), 0) FROM step").fetchone()[0])


def report_in(connection: sqlite3.Connection) -> dict[str, Any]:
    """The report in plain values: the last one; where it was made during the run, it says so."""
    run, steps = run_in(connection), steps_in(connection)
    row = connection.execute("SELECT step, final, json FROM report").fetchone()
    report: dict[str, Any] = json.loads(row[2]) if row is not None else _without_verdict(run, steps)
    if row is not None and row[1]:
        return report
    state = "the run goes on" if is_running(run) else "the run ended without its last report: it was killed"
    until = f"{row[0]} of {steps} steps" if row is not None else f"{steps} steps"
    advice = {"topic": "capture", "text": f"{state}; this is what was known after {until}"}
    return report | {"advice": [advice, *report.get("advice", ())]}


def _without_verdict(run: Mapping[str, Any], steps: int) -> dict[str, Any]:
    going = is_running(run)
    return {
        "schema": 1,
        **{name: str(run.get(name) or "") for name in ("leakguard", "torch", "python")},
        "status": "inconclusive",
        "why": f"{steps} steps were seen, and no verdict was written yet"
        if going
        else f"the run was killed after {steps} steps, before its first verdict",
        "next": "wait for some more seconds" if going else "let it run for some more seconds",
        "steps": {"count": steps, "source": run.get("source")},
    }


def _was_killed(run: Mapping[str, Any]) -> bool:
    here = run.get("host") == os.uname().nodename
    return here and run.get("ended") is None and not is_running(run)


def _check(connection: sqlite3.Connection, path: str | Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise ReportError(f"{path} is an SQLite file, and no capture of leakguard.")
    if schema > SCHEMA:
        raise ReportError(
            f"{path} has schema {schema} and this leakguard reads captures up to schema {SCHEMA}: "
            "show it with the leakguard that wrote it, or a later one."
        )


def _started(pid: int) -> int | None:
    """When a process began, in ticks since the machine did: a number is given to one process after the other."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
