"""A folder with scripts in it, run by real processes with the real torch and the leakguard that the tests
use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

LEAKING = """
    import torch
    from torch import nn

    def main(steps):
        model = nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        history = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 8)).square().mean()
            loss.backward()
            optimizer.step()
            history.append(torch.zeros(64))  # leaks
"""

CLEAN = LEAKING.replace("history.append(torch.zeros(64))  # leaks", "history.append(loss.item())")


class World:
    """Scripts are dedented; each run gets a clean environment and two minutes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("LEAKGUARD")}
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            self.env.pop(name, None)
        self.env |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "GLOO_SOCKET_IFNAME": "lo"}

    def write(self, *parts: str, name: str = "script.py") -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(map(textwrap.dedent, parts)), encoding="utf-8")
        return file

    def python(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
        )

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "leakguard", "run", "--json", "report.json", *words, **env)

    def report(self, name: str = "report.json") -> dict[str, Any]:
        data = json.loads((self.folder / name).read_text(encoding="utf-8"))
        assert isinstance(data, dict)
        return data


def line_of(script: Path, mark: str = "# leaks") -> int:
    """The line that ends in `mark`."""
    lines = script.read_text(encoding="utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(mark))
