"""leakguard.log_gpu_memory and Guard.log: the familiar line, and the verdict at the end."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import leakguard

LOOP = """\
import torch, leakguard
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
kept = []
for step in range(1, 31):
    loss = model(torch.rand(8, 64)).sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    kept.append(torch.rand(256))
    leakguard.log_gpu_memory(step, interval=10)
"""


def test_a_loop_pasted_into_ends_with_the_verdict(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stdout + done.stderr
    for number, line in zip((10, 20, 30), lines, strict=False):
        assert re.fullmatch(rf"\d\d:\d\d:\d\d  step {number}  cpu allocated [\d.]+ KiB", line)
    assert re.match(
        r"\d\d:\d\d:\d\d  leakguard: leak, cpu grows 1.00 KiB a step, steadily since step 3 .*: module global ",
        lines[3],
    )


@pytest.fixture
def guard() -> Any:
    with leakguard.watch(on_exit="never") as guard:
        yield guard


def test_to_a_callable_and_to_a_logger(guard: leakguard.Guard, caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []
    kept = torch.rand(256)
    for step in range(5):
        guard.log(step, interval=2, to=lines.append)
    assert [re.sub(r"^\S+ +", "", line).partition("  ")[0] for line in lines] == [
        "step 0",
        "step 2",
        "step 4",
    ]
    with caplog.at_level(logging.INFO, "train"):
        guard.log(7, interval=7, to=logging.getLogger("train"))
    assert caplog.messages == [lines[-1].partition("  ")[2].replace("step 4", "step 7")]
    del kept


def test_the_step_is_counted_when_none_is_given(guard: leakguard.Guard) -> None:
    lines: list[str] = []
    for _ in range(4):
        leakguard.step()
        guard.log(interval=1, to=lines.append)
    assert [line.split()[2] for line in lines] == ["1", "2", "3", "4"]


def test_the_rank_is_said(guard: leakguard.Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    lines: list[str] = []
    guard.log(1, interval=1, to=lines.append)
    assert "  [rank 3] step 1  " in lines[0]


def test_a_sink_that_fails_does_not_stop_the_loop(
    guard: leakguard.Guard, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(line: str) -> None:
        raise OSError("no space left on device")

    guard.log(1, interval=1, to=broken)
    assert "training goes on: OSError: no space left on device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"step": "3"}, TypeError, "step is a whole number, and got str"),
        ({"step": 1.5}, TypeError, "step is a whole number, and got float"),
        ({"step": 1, "interval": 0}, ValueError, "interval is 0: a whole number of steps, 1 or more"),
        ({"step": 1, "to": 3}, TypeError, "to is a int: give a logging.Logger"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        leakguard.log_gpu_memory(**arguments)


def test_switched_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LEAKGUARD", "0")
    leakguard.log_gpu_memory(0)
    assert capsys.readouterr().out == ""
