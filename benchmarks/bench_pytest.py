"""What the pytest plugin costs a session that checks every test, and whether it ever accuses a clean suite.

    python benchmarks/bench_pytest.py [--quick]

CPU time of the loop that runs 1 000 trivial tests, with the plugin and without it, in processes of their own; the quiet
end of several rounds. Then the fifty tests of clean_suite, 200 times over in one session.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import measure

TESTS = 1000
REPETITIONS = 200

TRIVIAL = f"""
import pytest
import torch


@pytest.mark.parametrize("n", range({TESTS}))
def test_trivial(n):
    assert n >= 0
"""

METER = """
import gc
import json
import time


class Meter:
    collections = 0

    def pytest_runtestloop(self, session):
        collect = gc.collect

        def counted(*arguments):
            Meter.collections += 1
            return collect(*arguments)

        gc.collect = counted
        self.began = time.process_time()

    def pytest_sessionfinish(self, session):
        seconds = time.process_time() - self.began
        print("\\nmeter", json.dumps({"seconds": seconds, "collections": self.collections}))


def pytest_configure(config):
    config.pluginmanager.register(Meter())
"""

WITHOUT = ("-p", "no:leakguard")
PLUGIN = ("-p", "leakguard.pytest_plugin")


def pytest_run(folder: Path, *options: str, **environment: str) -> str:
    """The output of a session in which no plugin is loaded but those named."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *options, str(folder)]
    everything = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment}
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=everything, check=False).stdout


def metered(folder: Path, *options: str) -> dict[str, float]:
    """Seconds of the loop over the tests, and garbage collections that somebody asked for in it."""
    found = re.search(r"^meter (.*)$", pytest_run(folder, *options), re.MULTILINE)
    assert found is not None
    figures: dict[str, float] = json.loads(found[1])
    return figures


def trivial_tests(rounds: int) -> dict[str, float]:
    """Microseconds that the plugin adds to a trivial test."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_trivial.py").write_text(TRIVIAL)
        (folder / "conftest.py").write_text(METER)
        configurations = {"bare": WITHOUT, "loaded": PLUGIN, "checking": (*PLUGIN, "--leakguard")}
        seconds: dict[str, list[float]] = {name: [] for name in configurations}
        collections = 0.0
        for _ in range(rounds):
            for name, options in configurations.items():
                figures = metered(folder, *options)
                seconds[name].append(figures["seconds"])
                collections += figures["collections"]
    best = {name: min(values) for name, values in seconds.items()}
    return {
        "bare_us": 1e6 * best["bare"] / TESTS,
        "loaded_added_us": 1e6 * (best["loaded"] - best["bare"]) / TESTS,
        "checking_added_us": 1e6 * (best["checking"] - best["bare"]) / TESTS,
        "collections": collections,
    }


def load_time(rounds: int) -> float:
    """Milliseconds to import the plugin in a process that has pytest."""
    code = (
        "import pytest, _pytest.logging, time; began = time.process_time(); import leakguard.pytest_plugin; "
        "print(1e3 * (time.process_time() - began))"
    )
    return min(
        float(
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
        )
        for _ in range(rounds)
    )


def clean_suite(repetitions: int) -> dict[str, float]:
    """Tests of the clean suite that were run, and those that did not pass."""
    folder = Path(__file__).parent / "clean_suite"
    output = pytest_run(folder, *PLUGIN, "--leakguard", "-c", os.devnull, REPETITIONS=str(repetitions))
    counts = {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|errors?)\b", output)}
    failures = sum(number for kind, number in counts.items() if kind != "passed")
    if failures or not counts:
        print(output, file=sys.stderr)
    return {"suite_tests": sum(counts.values()), "suite_failures": failures}


def main() -> None:
    quick = measure.quick()
    measure.emit(
        {
            **trivial_tests(1 if quick else 7),
            "load_ms": load_time(3 if quick else 9),
            **clean_suite(2 if quick else REPETITIONS),
        }
    )


if __name__ == "__main__":
    main()
