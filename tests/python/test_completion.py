"""Completion in a shell: what argcomplete is told when TAB is pressed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leakguard.cli import COMMANDS
from leakguard.exports import FORMATS

pytest.importorskip("argcomplete")


MAIN = "import sys; from leakguard.cli import main; sys.exit(main())"


def completed(line: str, folder: Path, *, command: str = MAIN) -> set[str]:
    """The words that a shell offers at the end of `line`, as its function for argcomplete asks for them."""
    answer = folder / "answer"
    answer.unlink(missing_ok=True)
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    done = subprocess.run(
        [sys.executable, "-c", command], env=os.environ | asked, cwd=folder, capture_output=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    return {word.strip() for word in answer.read_text().split("\n")} if answer.exists() else set()


def test_commands(tmp_path: Path) -> None:
    names = {command.__name__.rpartition(".")[2] for command in COMMANDS}
    assert completed("leakguard ", tmp_path) >= names
    assert completed("leakguard exp", tmp_path) == {"explain", "export"}


def test_options_and_their_values(tmp_path: Path) -> None:
    assert completed("leakguard run --fail-", tmp_path) == {"--fail-on"}
    assert completed("leakguard run --fail-on ", tmp_path) == {"leak", "warning", "never"}
    assert completed("leakguard export run.leakguard --to ", tmp_path) == set(FORMATS)


def test_files(tmp_path: Path) -> None:
    (tmp_path / "report.json").touch()
    (tmp_path / "train.py").touch()
    assert "report.json" in completed("leakguard show re", tmp_path)
    assert "train.py" in completed("leakguard run --fail-on leak tra", tmp_path)


def test_nothing_runs_where_argcomplete_is_missing(tmp_path: Path) -> None:
    without = """
import sys
sys.modules["argcomplete"] = None
from leakguard.cli import main
assert main(["run", "nothing.py"]) == 1
"""
    assert completed("leakguard ", tmp_path, command=without) == set()
