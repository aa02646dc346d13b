"""A project of test files, and pytest runs in it with leakguard's plugin: in this process, which has torch
already, or in one of its own."""

from __future__ import annotations

import importlib
import json
import linecache
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("torch")

import leakguard.render
import leakguard.testing

# What a run in this process imports first, pytester forgets after it; the process has one torch and one ledger.
importlib.import_module("torch._dynamo")  # as the first optimizer step would
for package in (leakguard, leakguard.testing, leakguard.render):
    for file in sorted(Path(str(package.__file__)).parent.glob("[a-z]*.py")):
        importlib.import_module(f"{package.__name__}.{file.stem}")

PLUGIN = "leakguard.pytest_plugin"

LEAK = """
    import pytest, torch

    KEPT = []

    @pytest.mark.limit_gpu_leaks("0 B")
    def test_leaks():
        KEPT.append(torch.zeros(256))  # leaks
"""

CLEAN = """
    import pytest, torch

    @pytest.mark.limit_gpu_leaks("0 B")
    def test_is_clean():
        torch.zeros(256).sum()
"""


class PluginWorld:
    """One project. Only the plugins that are named with `-p` are loaded beside leakguard's."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.path = pytester.path
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        monkeypatch.delenv("LEAKGUARD", raising=False)
        monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
        monkeypatch.setenv("COLUMNS", "160")

    def write(self, text: str, name: str = "test_it") -> Path:
        """A test file; instead of the one of that name, if there is one."""
        path = self.pytester.makepyfile(**{name: text})
        linecache.clearcache()
        return path

    def run(self, *arguments: str) -> pytest.RunResult:
        """A run in this process."""
        return self.pytester.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider", *arguments)

    def run_alone(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A run in a process of its own."""
        command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=self.path, timeout=900, check=False
        )

    def json(self, name: str = "leaks.json") -> Any:
        """What --leakguard-json has written."""
        return json.loads((self.path / name).read_text(encoding="utf-8"))

    def findings(self, name: str = "leaks.json") -> dict[str, list[dict[str, Any]]]:
        """Of each test, by its bare name."""
        return {test["nodeid"].split("::")[-1]: test["findings"] for test in self.json(name)["tests"]}

    def statuses(self, name: str = "leaks.json") -> dict[str, str]:
        """Of each test, by its bare name."""
        return {test["nodeid"].split("::")[-1]: test["status"] for test in self.json(name)["tests"]}

    def runs(self, name: str = "leaks.json") -> dict[str, int]:
        """How often each body was run, by the test's bare name."""
        return {test["nodeid"].split("::")[-1]: test["runs"] for test in self.json(name)["tests"]}

    def line(self, comment: str, name: str = "test_it") -> int:
        """The number of the line that ends in this comment."""
        lines = (self.path / f"{name}.py").read_text(encoding="utf-8").splitlines()
        (number,) = [number for number, text in enumerate(lines, 1) if text.endswith(f"# {comment}")]
        return number

    def junit(self, name: str = "junit.xml") -> ElementTree.Element:
        """What --junitxml has written."""
        return ElementTree.parse(self.path / name).getroot()


def failure_of(result: pytest.RunResult, test: str) -> list[str]:
    """The lines of one test's failure, without its heading."""
    lines = result.outlines
    (start,) = [number for number, line in enumerate(lines) if line.startswith("___") and f" {test} " in line]
    end = next(number for number, line in enumerate(lines) if number > start and line[:3] in ("___", "==="))
    return lines[start + 1 : end]
