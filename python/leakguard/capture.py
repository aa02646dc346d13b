"""Writing a capture file: each step as it ends, now and then what is known of the run, and the report at its end.

Every step is one small transaction of the training thread: a sixth of a millisecond where files are local. What is
written belongs to the kernel, so a process may be killed at any moment; nothing is forced to the disk. Where
transactions are slow (home folders on a network) they are spaced to take a hundredth of the time. Nothing here raises
while the run goes on: what cannot be written is kept for a later try, and `trouble` says why.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakguard.capture_creation import created, put_facts
from leakguard.capture_file import WRITTEN_HERE, identity, process
from leakguard.recording import Recording, SourceLines
from leakguard.report import Place, ReportError, Steps, versions
from leakguard.step_table import StepDiff, StepRow, StepTable

__all__ = ["CaptureWriter", "write_capture"]

MOST_ROWS = 8192
"""Rows of a device that a file holds; then the older ones are put together, several steps to a row."""

MOST_PENDING = 1024
SLOW = 4e-3
"""Seconds of a transaction from which on they are spaced."""

SHARE = 0.01
RETRY_SECONDS, LONGEST_RETRY = 1.0, 64.0

STEP = "INSERT OR REPLACE INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
SITE = "INSERT INTO site VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


Sizes = Mapping[tuple[str, int], int]
"""Bytes by device and by the last step of a row."""


class CaptureWriter:
    """One capture file, from its creation to `finish` or `close`. An older capture of that name is replaced; any other
    file is left alone.

    Raises ReportError when the file cannot be created. To be used by one process; from any of its threads.
    """

    def __init__(
        self,
        path: Path,
        *,
        most_rows: int = MOST_ROWS,
        command: str | None = None,
        began: float | None = None,
    ) -> None:
        self.path = path
        self.trouble: str | None = None
        self.seconds = 0.0
        self._most_rows = most_rows
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._pending: list[StepRow] = []
        self._rows: dict[str, int] = {}
        self._devices: dict[str, int] = {}
        self._sites: dict[tuple[str, Place], int] = {}
        self._recent: deque[float] = deque(
            maxlen=9
        )  # what transactions took; one may be held up, most are not
        self._due = 0.0
        self._retry = RETRY_SECONDS
        facts = {**versions()._asdict(), "command": command, "began": began or time.time(), **process()}
        try:
            self._connection: sqlite3.Connection | None = created(path, facts)
            self._identity = identity(path)
        except (OSError, sqlite3.Error) as error:
            raise ReportError(f"{path} cannot be written: {error}.") from error
        WRITTEN_HERE.add(self._identity)

    def put_steps(self, rows: Iterable[StepRow]) -> None:
        """Rows of steps that have ended since."""
        with self._turn() as granted:
            self._pending.extend(rows)
            if granted and time.monotonic() >= self._due:
                self._write(lambda _: None)

    def put(
        self, recording: Recording, survivors: Sizes, found: Sizes | None = None, *, final: bool = False
    ) -> None:
        """What is known of the run now; `survivors` is what is alive, by device and by the last step of its row, and
        `found` what of it was born where a finding says."""

        def more(connection: sqlite3.Connection) -> None:
            self._set_sizes(connection, "survivors", survivors)
            if found is not None:
                connection.execute("UPDATE step SET found = 0")
                self._set_sizes(connection, "found", found)
            self._put(connection, recording, final)

        with self._turn() as granted:
            if granted and self._is_there():
                self._write(more)

    def replace(self, rows: Iterable[StepRow], recording: Recording) -> None:
        """These rows and what is known now, in the place of all there was."""

        def whole(connection: sqlite3.Connection) -> None:
            self._clear(connection)
            self._insert(connection, list(rows))
            self._put(connection, recording, False)

        with self._turn() as granted:
            if granted and self._is_there():
                self._write(whole)

    def restart(self) -> None:
        """Forgets the steps so far."""
        with self._turn() as granted:
            self._pending.clear()
            if granted:
                self._write(self._clear)

    def ends(self) -> list[int]:
        """The last step of each row, ascending."""
        with self._turn() as granted:
            if not granted or self._connection is None:
                return []
            if self._pending:
                self._write(lambda _: None)
            try:
                found = self._connection.execute("SELECT DISTINCT last FROM step ORDER BY last")
                return [last for (last,) in found]
            except sqlite3.Error:
                return []

    def close(self) -> None:
        """Ends writing. The file is one file then, unless somebody reads it at this moment."""
        connection, self._connection = self._connection, None
        if connection is None or os.getpid() != self._owner:
            return
        WRITTEN_HERE.discard(self._identity)
        with contextlib.closing(connection), contextlib.suppress(sqlite3.Error):
            connection.rollback()
            connection.execute("PRAGMA journal_mode = DELETE")

    @contextlib.contextmanager
    def _turn(self) -> Any:
        """Whether this thread may write. A signal handler may have interrupted this thread's own writing."""
        granted = self._lock.acquire(timeout=1.0)
        try:
            yield granted and self._connection is not None and os.getpid() == self._owner
        finally:
            if granted:
                self._lock.release()

    def _is_there(self) -> bool:
        """Whether the file still has its name: with a write-ahead log SQLite does not ask."""
        with contextlib.suppress(OSError):
            if identity(self.path) == self._identity:
                return True
        self.trouble = "it has been removed or replaced"
        return False

    def _write(self, more: Callable[[sqlite3.Connection], None]) -> None:
        """One transaction: the pending rows and what `more` adds."""
        connection, rows = self._connection, self._pending
        assert connection is not None
        began = time.perf_counter()
        try:
            if connection.in_transaction:  # a signal handler has come in between
                self._roll_back(connection)
            connection.execute("BEGIN IMMEDIATE")
            self._insert(connection, rows)
            more(connection)
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self._failed(connection, error)
        else:
            self._pending = []
            self.trouble = None
            self._retry = RETRY_SECONDS
            self._recent.append(time.perf_counter() - began)
            usual = sorted(self._recent)[len(self._recent) // 2]
            self._due = time.monotonic() + usual / SHARE if usual > SLOW else 0.0
        self.seconds += time.perf_counter() - began

    def _failed(self, connection: sqlite3.Connection, error: Exception) -> None:
        self._roll_back(connection)
        if len(self._pending) > MOST_PENDING:
            table = StepTable(steps=Steps(), rows=tuple(self._pending)).thinned(MOST_PENDING // 2)
            self._pending = list(table.rows)
        if getattr(error, "sqlite_errorname", "").startswith(
            "SQLITE_BUSY"
        ):  # a reader; the next step will do
            return
        self.trouble = str(error)
        self._due = time.monotonic() + self._retry
        self._retry = min(2 * self._retry, LONGEST_RETRY)

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        """Numbers that were given in the transaction are given no more."""
        with contextlib.suppress(sqlite3.Error):
            connection.rollback()
        self._devices.clear()
        self._sites.clear()

    def _insert(self, connection: sqlite3.Connection, rows: Sequence[StepRow]) -> None:
        connection.executemany(STEP, [self._step(connection, row) for row in rows])
        for row in rows:
            self._rows[row.device] = self._rows.get(row.device, 0) + 1
            if self._rows[row.device] > self._most_rows:
                self._thin(connection, row.device)

    def _step(self, connection: sqlite3.Connection, row: StepRow) -> tuple[Any, ...]:
        figures = (row.trough, row.peak, row.allocated, row.consumed, row.survivors, row.change, row.seconds)
        return (
            self._device(connection, row.device),
            row.last_step,
            row.first_step,
            *figures,
            row.reserved,
            row.found,
            row.backward_seconds,
            row.optimizer_seconds,
        )

    def _thin(self, connection: sqlite3.Connection, device: str) -> None:
        number = self._device(connection, device)
        columns = (
            "first, last, trough, peak, allocated, consumed, survivors, change, seconds, reserved, found, "
            "backward_seconds, optimizer_seconds"
        )
        found = connection.execute(f"SELECT {columns} FROM step WHERE device = ? ORDER BY last", (number,))
        names = ("first_step", "last_step", *columns.split(", ")[2:])
        rows = tuple(StepRow(device=device, **dict(zip(names, one, strict=True))) for one in found)
        thinned = StepTable(steps=Steps(), rows=rows).thinned(self._most_rows // 2).rows
        connection.execute("DELETE FROM step WHERE device = ?", (number,))
        connection.executemany(STEP, [self._step(connection, row) for row in thinned])
        self._rows[device] = len(thinned)

    def _set_sizes(self, connection: sqlite3.Connection, column: str, sizes: Sizes) -> None:
        connection.executemany(
            f"UPDATE step SET {column} = ? WHERE device = ? AND last = ?",
            [(size, self._device(connection, device), last) for (device, last), size in sizes.items()],
        )

    def _put(self, connection: sqlite3.Connection, recording: Recording, final: bool) -> None:
        report = recording.report
        steps = report.steps
        facts: dict[str, Any] = {**versions()._asdict(), "source": steps.source, "warmup": steps.warmup}
        facts["ended" if final else "updated"] = time.time()
        put_facts(connection, facts)
        text = json.dumps(report.to_dict(), separators=(",", ":"))
        step = report.steps.count
        connection.execute("INSERT OR REPLACE INTO report VALUES (1, ?, ?, ?)", (step, int(final), text))
        if recording.growth is not None:
            self._put_growth(connection, recording.growth)
        if recording.snapshot is not None:
            plain = json.dumps(recording.snapshot.to_dict(), separators=(",", ":"))
            blob = zlib.compress(plain.encode())
            connection.execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?)", (blob,))
        _put_sources(connection, recording.sources)

    def _put_growth(self, connection: sqlite3.Connection, growth: StepDiff) -> None:
        put_facts(connection, {"growth_from": growth.from_step, "growth_to": growth.to_step})
        connection.execute("DELETE FROM growth")
        connection.executemany(
            "INSERT INTO growth VALUES (?, ?, ?, ?, ?)",
            [
                (
                    self._site(connection, one.device, one.place),
                    one.bytes,
                    one.blocks,
                    one.live_bytes,
                    one.live_blocks,
                )
                for one in growth.sites
            ],
        )

    def _device(self, connection: sqlite3.Connection, name: str) -> int:
        number = self._devices.get(name)
        if number is None:
            connection.execute("INSERT OR IGNORE INTO device (name) VALUES (?)", (name,))
            (number,) = connection.execute("SELECT id FROM device WHERE name = ?", (name,)).fetchone()
            self._devices[name] = number
        return int(number)

    def _site(self, connection: sqlite3.Connection, device: str, place: Place) -> int:
        number = self._sites.get((device, place))
        if number is None:
            number = len(self._sites) + 1
            where = (place.file, place.line, place.function, place.expression)
            known = (place.op, place.module, place.phase, place.via)
            connection.execute(SITE.replace("INSERT", "INSERT OR REPLACE"), (number, device, *where, *known))
            self._sites[device, place] = number
        return number

    def _clear(self, connection: sqlite3.Connection) -> None:
        for table in ("step", "growth", "report", "snapshot"):
            connection.execute(f"DELETE FROM {table}")
        self._rows.clear()


def _put_sources(connection: sqlite3.Connection, sources: Sequence[SourceLines]) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO source VALUES (?, ?, ?)",
        [(one.file, one.first, "\n".join(one.lines)) for one in sources],
    )


def write_capture(path: Path, recording: Recording) -> None:
    """A capture of a run that is over. Raises ReportError when it cannot be written."""
    writer = CaptureWriter(path, command=recording.command, began=recording.began)
    try:
        if recording.table is not None:
            writer.put_steps(recording.table.rows)
        writer.put(recording, {}, final=True)
        if writer.trouble is not None:
            raise ReportError(f"{path} cannot be written: {writer.trouble}.")
    finally:
        writer.close()
