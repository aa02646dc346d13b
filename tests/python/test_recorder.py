"""Capture files of real runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import types
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import leakguard  # noqa: E402
from leakguard import capture, recorder  # noqa: E402
from leakguard._native import core  # noqa: E402
from leakguard.guard import Guard, current  # noqa: E402
from leakguard.recording import Recording, load_recording  # noqa: E402
from leakguard.step_table import StepTable  # noqa: E402

KEPT = 4096  # floats: 16 KiB


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(capture, "SLOW", 1e9)  # however busy the machine is
    return tmp_path / "run.lg"


def train(steps: int) -> list[torch.Tensor]:
    kept = []
    for _ in range(steps):
        passing = torch.ones(8 * KEPT)
        kept.append(torch.ones(KEPT))
        del passing
        leakguard.step()
    return kept


def watched(path: Path, steps: int) -> tuple[Guard, StepTable]:
    with leakguard.watch(on_exit="never", save=path) as guard:
        kept = train(steps)
        del kept[5:10]
        table = guard.table()
    return guard, table


def test_it_has_what_the_guard_says(path: Path) -> None:
    guard, table = watched(path, 40)
    read = load_recording(path)
    assert read.report == guard.report() == leakguard.load(path)
    assert read.table is not None
    assert [replace(row, found=None) for row in read.table.rows] == list(guard.table().rows)
    assert [row.found for row in read.table.of("cpu")] == [row.survivors for row in table.of("cpu")]
    assert [row.survivors for row in table.of("cpu")][4:11] == [4 * KEPT, 0, 0, 0, 0, 0, 4 * KEPT]
    assert read.snapshot is not None and read.snapshot.step == 40
    assert read.growth is not None and (read.growth.from_step, read.growth.to_step) == (4, 40)
    change = read.growth.sites[0]
    assert (change.place.expression, change.bytes, change.live_blocks) == (
        "torch.ones(KEPT)",
        36 * 4 * KEPT,
        40,
    )
    assert any("kept.append(torch.ones(KEPT))" in line for piece in read.sources for line in piece.lines)
    assert Recording.from_dict(read.to_dict()) == read


def test_each_step_of_a_long_run_is_there(path: Path) -> None:
    with leakguard.watch(on_exit="never", save=path):
        kept = train(400)
    table = load_recording(path).table
    assert table is not None
    rows = table.of("cpu")
    assert [row.last_step for row in rows] == list(range(1, 401))
    assert {row.survivors for row in rows[1:]} == {4 * KEPT}
    assert len(kept) == 400


def test_during_the_run_there_is_a_verdict(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(recorder.Recorder, "every", 0.0)
    monkeypatch.setattr(recorder.Recorder, "budget", 1e9)
    with leakguard.watch(on_exit="never", save=path):
        kept = train(30)
        report = leakguard.load(path)
        assert (report.status, report.steps.count) == ("leak", 30)
        assert report.findings[0].retained_by[-1].type == "Tensor, [4096] float32"
        assert report.advice[0].text == "the run goes on; this is what was known after 30 of 30 steps"
        table = load_recording(path).table
        assert table is not None
        assert sum(row.survivors for row in table.of("cpu")) == len(kept) * 4 * KEPT


def test_steps_that_are_set_aside_are_not_in_it(path: Path) -> None:
    model = torch.nn.Linear(4, 4)
    with leakguard.watch(on_exit="never", save=path) as guard:
        for _ in range(5):
            model(torch.ones(4)).sum().backward()  # steps, until there are better ones
        kept = train(3)
    assert load_recording(path).table == guard.table()
    assert len(kept) == len(guard.table().of("cpu")) == 3


def test_a_disk_that_is_full_is_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with leakguard.watch(on_exit="never", save=path) as guard:
        assert guard._engine is not None
        guard._engine._tellers[-1]._writer._connection.execute("PRAGMA max_page_count = 1")
        kept = train(500)
        report = guard.report()
    sentence = f"{path} is not written any more: database or disk is full"
    told = [one.text for one in report.advice if one.topic == "capture"]
    assert (report.status, told) == ("leak", [sentence])
    assert capsys.readouterr().err == f"leakguard: {sentence}; the run goes on\n"
    assert report.lost.failures == 0
    assert len(kept) == 500


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(leakguard.ReportError, match="cannot be written"):
        leakguard.watch(save=tmp_path / "nowhere" / "run.lg")
    (tmp_path / "mine.lg").write_text("mine")
    with pytest.raises(leakguard.ReportError, match="is no capture"):
        leakguard.watch(save=tmp_path / "mine.lg")
    assert current() is None and not core.cpu_attached()


def test_a_file_that_cannot_be_made_later_stops_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise leakguard.ReportError("no room")

    monkeypatch.setattr(recorder, "CaptureWriter", fails)
    with leakguard.watch(on_exit="never", save=path) as guard:
        kept = train(20)
        report = guard.report()
    assert (report.status, report.lost.failures) == ("leak", 1)
    assert "training goes on: ReportError: no room" in capsys.readouterr().err
    assert len(kept) == 20


def test_killed_in_the_middle(path: Path) -> None:
    script = path.with_name("train.py")
    script.write_text(
        textwrap.dedent("""
            import os, signal
            import torch, leakguard
            history = []
            for step in range(1, 31):
                history.append(torch.ones(4096))
                leakguard.step()
                if step == 30:
                    os.kill(os.getpid(), signal.SIGKILL)
        """)
    )
    done = subprocess.run(
        [sys.executable, "-m", "leakguard", "run", "-o", path.name, script.name, "--lr", "1"],
        cwd=path.parent,
        env={name: value for name, value in os.environ.items() if name != "RANK"},
        stderr=subprocess.DEVNULL,
    )
    assert done.returncode == -signal.SIGKILL
    read = load_recording(path)
    assert read.table is not None
    assert [row.last_step for row in read.table.of("cpu")] == list(range(1, 31))
    assert read.command == "train.py --lr 1"
    assert read.report.findings[0].allocated_at.line == 6
    assert "it was killed" in read.report.advice[0].text


@pytest.mark.parametrize(
    ("words", "module", "command"),
    [
        (["train.py", "--lr", "1 2"], None, "train.py --lr '1 2'"),
        (["{here}/train.py"], None, "train.py"),
        (["/elsewhere/train.py"], None, "/elsewhere/train.py"),
        (["/lib/pytest/__main__.py", "-q"], "pytest.__main__", "-m pytest -q"),
        (["/lib/train.py"], "package.train", "-m package.train"),
        ([], None, None),
    ],
)
def test_commands(
    words: list[str], module: str | None, command: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = types.ModuleType("__main__")
    main.__spec__ = None if module is None else ModuleSpec(module, None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", [word.replace("{here}", os.getcwd()) for word in words])
    assert recorder.command_line() == command
