"""A folder with a script in it, for the tests of `leakguard run`. The guard is the fake one of `fake_guard`,
so that none of them needs torch."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from leakguard.report import Report, load

FAKE_GUARD = Path(__file__).with_name("fake_guard")
PACKAGE = Path(__file__).parents[2] / "python"


class World:
    """A folder with a script in it, and python to run it plain or under watch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log.txt"
        self.report_file = folder / "report.json"
        known = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LEAKGUARD"))
        }
        path = os.pathsep.join([str(FAKE_GUARD), str(PACKAGE)])
        self.env = {
            **known,
            "PYTHONPATH": path,
            "FAKE_LOG": str(self.log),
            "COLUMNS": "80",
            "PYTHONUTF8": "1",
        }
        self.env.pop("RANK", None)

    def write(self, text: str, name: str = "script.py") -> Path:
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return file

    def python(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "leakguard", "run", "--json", "report.json", *words, **env)

    def report(self) -> Report:
        return load(self.report_file)

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []
