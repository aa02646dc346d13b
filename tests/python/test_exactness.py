"""The ledger is exact: block for block what a counting allocator below it says, in every scenario."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
if importlib.util.find_spec("_counting") is None:
    pytest.skip("the test-only module _counting is not built", allow_module_level=True)

SCRIPT = Path(__file__).with_name("exactness_scenarios.py")

# Scenarios that share a process, and how many blocks must have been live at once for them to say anything.
PROCESSES = [
    {
        "everything_dropped": 100,  # first: after it nothing at all may be left
        "plain_training": 100,
        "freed_by_another_thread": 100,
        "exceptions": 20,
        "begun_in_the_middle": 20,
        "watched_twice": 25,
        "storages_that_change": 1,
        "used_again_at_once": 50,
    },
    {"four_threads": 400},
    {"forked_workers": 20},
    {"spawned_workers": 20},
]


@functools.cache
def play(process: int) -> dict[str, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *PROCESSES[process]],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {result["name"]: result for result in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize(
    ("process", "name", "blocks"),
    [
        pytest.param(process, name, blocks, id=name)
        for process, scenarios in enumerate(PROCESSES)
        for name, blocks in scenarios.items()
    ],
)
def test_ledger_is_exact(process: int, name: str, blocks: int) -> None:
    result = play(process)[name]
    assert result["differences"] == []
    assert result["rounds"] > 0
    assert result["blocks"] >= blocks
