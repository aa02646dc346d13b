from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sample_reports import REPORTS

from leakguard.cli import main
from leakguard.report import Report


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", REPORTS)
def test_a_saved_report_is_shown(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    REPORTS[name].save(file)
    assert main(["show", str(file)]) == 0
    assert capsys.readouterr().out == f"{REPORTS[name]}\n"


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    REPORTS["several"].save(file)
    assert main(["show", str(file), "--json"]) == 0
    assert Report.from_dict(json.loads(capsys.readouterr().out)) == REPORTS["several"]


def test_what_is_no_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    file.write_text("{}")
    assert main(["show", str(file)]) == 2
    assert capsys.readouterr().err.startswith(
        f"leakguard: {file} is not a leakguard report: it has no schema number"
    )


def test_a_reader_that_has_seen_enough_ends_it_quietly(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    REPORTS["several"].save(file)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "leakguard", "show", file], stdout=write, stderr=subprocess.PIPE
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "leakguard show report.json" in capsys.readouterr().err.replace("python -m ", "")


@pytest.mark.parametrize("command", ["run", "show", "explain", "diff", "export"])
def test_every_command_explains_itself_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        main([command, "--help"])
    assert ending.value.code == 0
    text = capsys.readouterr().out
    assert f"python -m leakguard {command} " in text
    assert "exit codes:" in text


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("leakguard ")
