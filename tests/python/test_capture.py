"""The capture file, written and read without torch: whatever happens to the writer, its reader finds the steps."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sample_reports import LEAK
from sample_tables import FORWARD, GONE, SNAPSHOT, row

from leakguard import capture, capture_creation
from leakguard.capture import MOST_PENDING, CaptureWriter
from leakguard.capture_file import TABLES, is_capture, is_capture_name
from leakguard.cli import main
from leakguard.recording import Recording, SourceLines, load_recording
from leakguard.report import ReportError, Steps, load
from leakguard.run_stats import RunStats, stats_of
from leakguard.step_table import StepDiff, StepTable

PACKAGE = Path(__file__).parents[2] / "python"
ROWS = tuple(row(step, survivors=0) for step in range(1, 41))
WHOLE = Recording(
    report=LEAK,
    table=StepTable(steps=LEAK.steps, rows=ROWS),
    snapshot=SNAPSHOT,
    sources=(SourceLines(file="/home/me/train.py", first=3, lines=("a", "", "  b")),),
    command="train.py --epochs 3",
    growth=StepDiff(from_step=4, to_step=40, sites=(FORWARD, GONE)),
)


@pytest.fixture(autouse=True)
def every_transaction_counts_as_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(capture, "SLOW", 1e9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.leakguard"


@pytest.fixture(params=["write-ahead log", "rollback journal"])
def writer(
    request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CaptureWriter]:
    if request.param == "rollback journal":
        monkeypatch.setattr(capture_creation, "_is_on_network", lambda _: True)
    writer = CaptureWriter(path, command=WHOLE.command)
    yield writer
    writer.close()


def journal(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def shown_steps(path: Path) -> list[int]:
    table = load_recording(path).table
    assert table is not None
    return [row.last_step for row in table.rows]


def test_what_is_written_is_read(writer: CaptureWriter, path: Path) -> None:
    for one in ROWS:
        writer.put_steps([one])
    growth = replace(
        WHOLE.growth, sites=tuple(replace(s, survivor_bytes=0, survivor_blocks=0) for s in WHOLE.growth.sites)
    )
    writer.put(replace(WHOLE, growth=growth), {("cuda:0", 3): 77}, {("cuda:0", 3): 7}, final=True)
    writer.close()
    read = load_recording(path)
    rows = tuple(replace(one, survivors=77, found=7) if one.last_step == 3 else one for one in ROWS)
    assert read == replace(
        WHOLE, growth=growth, table=StepTable(steps=LEAK.steps, rows=rows), began=read.began
    )
    assert load(path) == LEAK
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_it_is_read_while_it_is_written(writer: CaptureWriter, path: Path) -> None:
    for one in ROWS[:5]:
        writer.put_steps([one])
        assert shown_steps(path)[-1] == one.last_step
    assert load(path).status == "inconclusive"
    assert load(path).why == "5 steps were seen, and no verdict was written yet"
    writer.put(replace(WHOLE, report=replace(LEAK, steps=replace(LEAK.steps, count=5))), {})
    writer.put_steps([ROWS[5]])
    report = load(path)
    assert report.status == LEAK.status
    assert report.advice[0].text == "the run goes on; this is what was known after 5 of 6 steps"
    read = load_recording(path).table
    assert read is not None and read.steps.count == 6


def test_a_reader_that_takes_its_time_stops_nobody(writer: CaptureWriter, path: Path) -> None:
    writer.put_steps(ROWS[:1])
    slow = sqlite3.connect(path, isolation_level=None)
    slow.execute("BEGIN")
    assert slow.execute("SELECT count(*) FROM step").fetchone() == (1,)
    for one in ROWS[1:5]:
        writer.put_steps([one])
    assert slow.execute("SELECT count(*) FROM step").fetchone() == (1,)
    assert writer.trouble is None
    slow.close()
    writer.put_steps([ROWS[5]])
    assert shown_steps(path) == [1, 2, 3, 4, 5, 6]


def test_where_a_log_does_not_work_there_is_a_journal(path: Path) -> None:
    writer = CaptureWriter(path)
    assert journal(path) == "wal"
    writer.close()
    Path(f"{path}-shm").mkdir()  # the log's shared memory cannot be had
    writer = CaptureWriter(path)
    writer.put_steps(ROWS)
    assert Path(f"{path}-journal").exists()
    assert shown_steps(path) == list(range(1, 41))
    writer.close()


@pytest.mark.parametrize("log", [True, False])
def test_a_killed_writer_leaves_every_step(log: bool, path: Path) -> None:
    code = f"""
import os, signal
from test_capture import *
if not {log}:
    capture_creation._is_on_network = lambda _: True
capture.SLOW = 1e9
writer = CaptureWriter(Path({str(path)!r}))
for one in ROWS[:20]:
    writer.put_steps([one])
writer.put(replace(WHOLE, report=replace(LEAK, steps=replace(LEAK.steps, count=20))), {{}})
for one in ROWS[20:]:
    writer.put_steps([one])
os.kill(os.getpid(), signal.SIGKILL)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), str(Path(__file__).parent)])}
    assert subprocess.run([sys.executable, "-c", code], env=env).returncode == -signal.SIGKILL
    read = load_recording(path)
    assert shown_steps(path) == list(range(1, 41))
    assert read.report.findings == LEAK.findings
    assert read.report.advice[0].text == (
        "the run ended without its last report: it was killed; this is what was known after 20 of 40 steps"
    )
    assert log == (not Path(f"{path}-journal").exists())
    assert not Path(f"{path}-wal").exists()  # what it left has been put into the one file


@pytest.mark.parametrize("log", [True, False])
def test_half_a_step_is_none(log: bool, path: Path) -> None:
    """Killed in the middle of a transaction, part of which is in the file already."""
    code = f"""
import os, signal
from test_capture import *
if not {log}:
    capture_creation._is_on_network = lambda _: True
writer = CaptureWriter(Path({str(path)!r}))
writer.put_steps(ROWS)
size = os.path.getsize({str(path)!r})
writer._connection.execute("BEGIN IMMEDIATE")
writer._insert(writer._connection, [row(step) for step in range(41, 8000)])  # more than SQLite keeps in memory
assert {log} or os.path.getsize({str(path)!r}) > size
os.kill(os.getpid(), signal.SIGKILL)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), str(Path(__file__).parent)])}
    assert subprocess.run([sys.executable, "-c", code], env=env).returncode == -signal.SIGKILL
    assert shown_steps(path) == list(range(1, 41))
    assert load(path).why == "the run was killed after 40 steps, before its first verdict"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_full_disk_loses_nothing_once_there_is_room(writer: CaptureWriter, path: Path) -> None:
    writer.put_steps(ROWS[:1])
    connection = writer._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    many = [row(step, survivors=0) for step in range(2, 200)]
    writer.put_steps(many)
    assert writer.trouble == "database or disk is full"
    assert shown_steps(path) == [1]
    writer.put(WHOLE, {}, final=True)
    assert load(path).status == "inconclusive"
    connection.execute("PRAGMA max_page_count = 100000")
    writer.put(WHOLE, {}, final=True)
    assert writer.trouble is None
    assert shown_steps(path) == list(range(1, 200))
    assert load(path) == LEAK


def test_what_waits_for_room_stays_small(writer: CaptureWriter, path: Path) -> None:
    writer._connection.execute("PRAGMA max_page_count = 1")
    for step in range(1, 3 * MOST_PENDING):
        writer._due = 0.0
        writer.put_steps([row(step)])
        assert len(writer._pending) <= MOST_PENDING + 1
    assert sum(one.steps for one in writer._pending) + shown_steps(path)[-1] == 3 * MOST_PENDING - 1


def test_a_signal_handler_may_end_it_in_the_middle_of_a_step(path: Path) -> None:
    writer = CaptureWriter(path)
    connection = writer._connection
    connection.execute("BEGIN IMMEDIATE")
    writer._pending.extend(ROWS[:2])
    writer._insert(connection, ROWS[:2])  # and here comes the signal
    writer.put(WHOLE, {}, final=True)
    writer.close()
    assert shown_steps(path) == [1, 2]
    assert load(path) == LEAK


def test_a_file_that_is_taken_away_stops_nobody(writer: CaptureWriter, path: Path) -> None:
    writer.put_steps(ROWS[:1])
    path.unlink()
    writer.put_steps(ROWS[1:2])
    writer.put(WHOLE, {}, final=True)
    assert writer.trouble is not None


def test_slow_transactions_are_spaced(
    writer: CaptureWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "SLOW", -1.0)
    monkeypatch.setattr(capture, "SHARE", 1e-9)
    for one in ROWS:
        writer.put_steps([one])
    assert shown_steps(path) == [1]
    writer.put(WHOLE, {}, final=True)
    assert shown_steps(path) == list(range(1, 41))


def test_a_step_takes_less_than_a_kib(writer: CaptureWriter, path: Path) -> None:
    steps = 1000
    for step in range(1, steps + 1):
        writer.put_steps([row(step), row(step, "cpu")])
        if step % 100 == 0:
            writer.put(WHOLE, {})
    parts = [Path(f"{path}{part}") for part in ("", "-wal", "-journal")]
    assert sum(part.stat().st_size for part in parts if part.exists()) < 1024 * steps
    writer.put(WHOLE, {}, final=True)
    writer.close()
    assert path.stat().st_size < 160 * steps


def test_a_long_run_is_thinned_and_adds_up(path: Path) -> None:
    writer = CaptureWriter(path, most_rows=64)
    for step in range(1, 1001):
        writer.put_steps([row(step), row(step, "cpu")])
    writer.close()
    table = load_recording(path).table
    assert table is not None
    for device in ("cuda:0", "cpu"):
        rows = table.of(device)
        assert len(rows) <= 64
        assert [one.steps for one in rows[-16:]] == [1] * 16
        assert (rows[0].first_step, rows[-1].last_step) == (1, 1000)
        assert all(a.last_step + 1 == b.first_step for a, b in zip(rows, rows[1:]))
        assert sum(one.consumed for one in rows) == 1000 * row(1).consumed
        assert sum(one.survivors for one in rows) == 1000 * row(1).survivors


def test_beginning_again_forgets_the_steps(writer: CaptureWriter, path: Path) -> None:
    writer.put_steps(ROWS)
    writer.restart()
    writer.put_steps(ROWS[:2])
    assert shown_steps(path) == [1, 2]


def test_a_forked_child_writes_nothing_and_breaks_nothing(writer: CaptureWriter, path: Path) -> None:
    writer.put_steps(ROWS[:2])
    child = os.fork()
    if child == 0:
        writer.put_steps(ROWS[2:3])
        writer.put(WHOLE, {}, final=True)
        writer.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    writer.put_steps(ROWS[2:4])
    assert shown_steps(path) == [1, 2, 3, 4]
    assert load(path).status == "inconclusive"


def test_only_captures_are_replaced(path: Path) -> None:
    CaptureWriter(path).close()
    writer = CaptureWriter(path)
    writer.put_steps(ROWS[:1])
    writer.close()
    assert shown_steps(path) == [1]
    path.write_text("my thesis")
    with pytest.raises(ReportError, match="is no capture: it is not overwritten"):
        CaptureWriter(path)
    assert path.read_text() == "my thesis"
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE mine (x)")
    with pytest.raises(ReportError, match="no capture of leakguard"):
        CaptureWriter(path)


def test_what_cannot_be_read_is_told(path: Path, tmp_path: Path) -> None:
    CaptureWriter(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(ReportError, match="schema 99 and this leakguard reads captures up to schema 1"):
        load(path)
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(ReportError, match="cannot be read as a capture"):
        load(path)
    with pytest.raises(ReportError, match="cannot be written"):
        CaptureWriter(tmp_path / "nowhere" / "run.lg")
    with pytest.raises(ReportError, match="cannot be read"):
        load(tmp_path / "nowhere.lg")


def test_names_of_captures() -> None:
    assert [
        name
        for name in ("a.lg", "a.leakguard", "a.SQLITE", "a.json", "lg", "a.lg.json")
        if is_capture_name(name)
    ] == [
        "a.lg",
        "a.leakguard",
        "a.SQLITE",
    ]
    assert not is_capture("/dev/null")


def test_the_documentation_has_every_column() -> None:
    page = (Path(__file__).parents[2] / "docs" / "capture-file.md").read_text()
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        section = page.partition(f"### `{table}`\n")[2].partition("\n### ")[0]
        columns = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
        assert {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")} >= columns, (
            table
        )


def test_commands_read_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = CaptureWriter(path)
    writer.put(WHOLE, {}, final=True)
    writer.close()
    assert main(["show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == LEAK.to_dict()
    assert main(["explain", LEAK.findings[0].fingerprint, str(path)]) == 0
    assert main(["diff", str(path), str(path)]) == 0


def test_figures_of_a_run(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    writer = CaptureWriter(path, command=WHOLE.command)
    writer.put_steps(ROWS)
    writer.put(WHOLE, {}, final=True)
    writer.close()
    stats = stats_of(load_recording(path))
    assert (stats.command, stats.status, stats.timed) == ("train.py --epochs 3", "leak", 39)
    assert stats.seconds == pytest.approx(39 * 0.0123)
    device = stats.devices[0]
    assert (device.device, device.peak, device.peak_step) == ("cuda:0", 100 * 2**20, 40)
    assert (device.most_consumed, device.most_consumed_step) == (44 * 2**20, 1)
    assert stats.sites[0].place.line == 41
    assert stats.sites[0].bytes_per_step == FORWARD.bytes / 36
    assert main(["stats", str(path)]) == 0
    assert capsys.readouterr().out == f"{stats}\n"
    assert main(["stats", str(path), "--json"]) == 0
    assert RunStats.from_dict(json.loads(capsys.readouterr().out)) == stats
    assert main(["stats", str(path.with_name("none.lg"))]) == 2


def test_a_report_file_is_a_recording_without_steps(tmp_path: Path) -> None:
    LEAK.save(tmp_path / "report.json")
    assert load_recording(tmp_path / "report.json") == Recording(report=LEAK)
    assert Steps() != LEAK.steps
