"""`leakguard live`, from the runtime folder to the screen."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from sample_reports import HOSTILE_NAME, LEAK, PROJECT, REPORTS
from sample_tables import FORWARD, GONE, HOSTILE, TABLE, row
from test_text import compare

from leakguard import live_files
from leakguard.capture import CaptureWriter
from leakguard.cli import main
from leakguard.live_view import LiveView, look
from leakguard.recording import Recording
from leakguard.render.live_page import live_page, overview_page
from leakguard.report import Steps
from leakguard.step_table import StepDiff, StepTable

PACKAGE = Path(__file__).parents[2] / "python"
GROWTH = StepDiff(from_step=4, to_step=40, sites=(FORWARD, GONE))
WHOLE = Recording(report=LEAK, table=TABLE, command="train.py --epochs 3", growth=GROWTH)
HOSTILE_RUN = Recording(
    report=REPORTS["hostile"],
    table=StepTable(steps=TABLE.steps, rows=(row(1, "<b>\x1b[2J"), row(2, "<b>\x1b[2J"))),
    command=HOSTILE_NAME,
    growth=StepDiff(from_step=1, to_step=2, sites=(HOSTILE,)),
)
VIEWS = {
    "leak": LiveView(WHOLE, 4711, True, 754.0, 1.0),
    "ended": LiveView(replace(WHOLE, report=REPORTS["clean"]), 4711, False, 754.0, 9.0),
    "silent": LiveView(replace(WHOLE, report=REPORTS["warning"]), 4711, True, 754.0, 95.0),
    "begun": LiveView(
        Recording(report=REPORTS["unwatched"], table=StepTable(steps=Steps())), 1, True, 2.0, None
    ),
    "hostile": LiveView(HOSTILE_RUN, 1, True, 2.0, None),
}
SCREENS = {"80x24": (80, 24, "utf-8"), "40x16": (40, 16, "utf-8"), "ascii": (120, 50, "ascii")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    only = live_files.folders()[:1]  # whatever else runs on this machine
    monkeypatch.setattr(live_files, "folders", lambda: only)
    return tmp_path / "leakguard"


@pytest.fixture
def writer(folder: Path) -> CaptureWriter:
    writer = CaptureWriter(live_files.made_path(), command=WHOLE.command)
    writer.replace(TABLE.rows, WHOLE)
    yield writer
    writer.close()


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", VIEWS)
def test_whole_screen(name: str, screen: str) -> None:
    width, height, encoding = SCREENS[screen]
    page = live_page(VIEWS[name], width, height, PROJECT, encoding).plain
    compare(f"live_{name}_{screen}", page)
    lines = page.split("\n")
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= width
    page.encode(encoding)


def test_several_processes() -> None:
    views = [replace(VIEWS["leak"], pid=pid) for pid in (17, 4711)] + [VIEWS["begun"]]
    compare("live_several_80x24", overview_page(views, 80, 24, None).plain)


def test_a_process_shows_and_is_gone(writer: CaptureWriter, capsys: pytest.CaptureFixture[str]) -> None:
    view = look(writer.path)
    assert (view.running, view.pid, view.recording.command) == (True, os.getpid(), WHOLE.command)
    assert view.table.rows == TABLE.rows
    for words in (["live"], ["live", str(os.getpid())], ["live", str(writer.path), "--once"]):
        assert main(words) == (1 if words == ["live"] else 0)  # one that looks does not count itself
    assert capsys.readouterr().out.count("train.py --epochs 3") == 2
    assert main(["live", str(os.getpid()), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["status"] == "leak"
    live_files.removed(writer.path)
    assert main(["live", str(os.getpid())]) == 2
    assert main(["live"]) == 1
    assert "no process of yours is watched now" in capsys.readouterr().err


def test_what_a_killed_process_has_left_goes(writer: CaptureWriter, folder: Path) -> None:
    other = folder / "1.leakguard"
    killed = CaptureWriter(other)
    killed._connection.execute("UPDATE run SET value = 4194304 WHERE key = 'pid'")
    killed.close()
    elsewhere = CaptureWriter(folder / "2.leakguard")
    elsewhere._connection.execute("UPDATE run SET value = 'elsewhere' WHERE key = 'host'")
    elsewhere.close()
    assert live_files.live_runs() == ()
    assert sorted(file.name for file in folder.iterdir() if file.suffix == ".leakguard") == sorted(
        [writer.path.name, "2.leakguard"]
    )


def test_a_folder_of_somebody_else_is_not_used(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    with pytest.raises(PermissionError):
        live_files.made_path()
    folder.rmdir()
    folder.symlink_to("/tmp")
    with pytest.raises(PermissionError):
        live_files.made_path()


def test_jobs_without_the_logins_variables_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    login = live_files.folders()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert live_files.folders()[0] in login
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert live_files.folders()[0] in login


def test_the_screen_follows_the_run_to_its_end(writer: CaptureWriter) -> None:
    """In a terminal of 80 x 24."""
    main_end, its_end = pty.openpty()
    env = {"PYTHONPATH": str(PACKAGE), "TERM": "xterm", "COLUMNS": "80", "LINES": "24", "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "leakguard", "live", str(writer.path), "--interval", "0.05"]
    with subprocess.Popen(command, env=env, stdin=its_end, stdout=its_end, stderr=its_end) as process:
        os.close(its_end)
        seen = read_until(main_end, "40 steps")
        later = replace(WHOLE, report=replace(LEAK, steps=replace(LEAK.steps, count=57)))
        writer.replace([*TABLE.rows, row(57)], later)
        seen += read_until(main_end, "57 steps")
        writer.put(later, {}, final=True)
        seen += read_until(main_end, None)
        assert process.wait(timeout=30) == 0
    os.close(main_end)
    assert "\x1b[?1049h" in seen  # a screen of its own
    left = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.rpartition("\x1b[?1049l")[2])
    assert "57 steps (optimizer), " in left
    assert "has ended" in left
    assert "train.py:41 in Net" in left


def read_until(descriptor: int, words: str | None) -> str:
    """What comes until these words, or to the end of the file."""
    text = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (words is None or words.encode() not in text):
        with contextlib.suppress(OSError):  # the other end is closed
            if chunk := os.read(descriptor, 4096):
                text += chunk
                continue
        break
    return text.decode()


class TestRealRuns:
    """With torch."""

    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        pytest.importorskip("torch")
        from leakguard import recorder

        monkeypatch.setattr(recorder, "FIRST_SECONDS", 0.0)
        monkeypatch.setattr(recorder.LiveTeller, "every", 0.0)
        monkeypatch.setattr(recorder.LiveTeller, "budget", 1e9)

    def train(self, steps: int = 20) -> None:
        import torch

        import leakguard

        self.kept = []
        for _ in range(steps):
            self.kept.append(torch.ones(4096))
            leakguard.step()

    def test_each_watched_process_tells(self, folder: Path) -> None:
        import leakguard

        with leakguard.watch(on_exit="never") as guard:
            self.train()
            path = live_files.live_path(os.getpid())
            assert path == folder / f"{os.getpid()}.leakguard"
            view = look(path)
            assert view.table.steps.count == 20
            ours, theirs = view.table.rows, guard.table().rows
            assert ours == tuple(replace(one, survivors=0) for one in theirs)
            assert view.recording.report.status == "leak"
            assert view.growing()[0].bytes_per_step == 16384.0
            self.train(400)
            assert sum(file.stat().st_size for file in folder.iterdir()) < 2**20
        assert list(folder.iterdir()) == []

    def test_unless_it_is_told_not_to(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import leakguard

        monkeypatch.setenv("LEAKGUARD_LIVE", "0")
        with leakguard.watch(on_exit="never"):
            self.train()
        assert not folder.exists()

    def test_without_a_folder_it_is_silent(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        import leakguard

        folder.write_text("in the way")
        with leakguard.watch(on_exit="never") as guard:
            self.train()
            assert guard.report().lost.failures == 0
        assert capsys.readouterr().err == ""
