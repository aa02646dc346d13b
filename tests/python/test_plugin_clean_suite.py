"""The fifty clean tests of the benchmarks under check, in one process: nobody is accused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from plugin_world import PluginWorld

SUITE = Path(__file__).resolve().parents[2] / "benchmarks" / "clean_suite"


@pytest.mark.parametrize("repetitions", [2, pytest.param(200, marks=pytest.mark.long)])
def test_a_clean_suite_is_never_accused(
    repetitions: int, project: PluginWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPETITIONS", str(repetitions))
    done = project.run_alone("-q", "--leakguard", "-c", os.devnull, str(SUITE))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{50 * repetitions} passed" in done.stdout
