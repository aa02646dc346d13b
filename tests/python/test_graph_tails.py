"""Graphs that get longer with every step behind a tensor that stays small: device flat, host rising."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
import torch

import leakguard
from leakguard import graph_tails
from leakguard.report import Report

STEPS = 40


@pytest.fixture(autouse=True)
def nodes_are_always_counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever else this process frees meanwhile must not hide the rise of its heap."""
    monkeypatch.setattr(graph_tails, "SUSPICIOUS_BYTES", float("-inf"))
    gc.collect()
    thresholds = gc.get_threshold()
    gc.set_threshold(10**6)
    yield
    gc.set_threshold(*thresholds)


def training(steps: int = STEPS) -> Iterator[torch.Tensor]:
    """The losses of a training loop, each after its backward pass."""
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(steps):
        loss = model(torch.rand(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss


def watched(loop: Callable[[], object]) -> Report:
    with leakguard.watch(on_exit="never") as guard:
        loop()
    return guard.report()


def total_of_losses() -> None:
    total: torch.Tensor | float = 0.0
    for loss in training():
        total = total + loss


def state_that_is_viewed() -> None:
    state = torch.zeros(4, requires_grad=True) * 1.0
    for _ in training():
        state = (
            state.view(2, 2).t().t().view(4)
        )  # views make no block, and only blocks have a line for certain


class Average:
    def __init__(self) -> None:
        self.value = torch.zeros(())

    def add(self, loss: torch.Tensor) -> None:
        self.value = self.value + loss


def average_of_an_object() -> None:
    average = Average()
    for loss in training():
        average.add(loss)


class InPlace(Average):
    def add(self, loss: torch.Tensor) -> None:
        self.value.add_(loss)  # makes no block either


def average_changed_in_place() -> None:
    average = InPlace()
    for loss in training():
        average.add(loss)


@pytest.mark.parametrize(
    ("loop", "function", "names", "cause"),
    [
        (total_of_losses, "total_of_losses", ["total", None], "attached-loss-total"),
        (state_that_is_viewed, None, ["state", None], "state-carried-in-graph"),
        (average_changed_in_place, None, ["average", "value", None], "attached-loss-total"),
        (average_of_an_object, "Average.add", ["average", "value", None], "attached-loss-total"),
    ],
)
def test_a_tail_is_found(
    loop: Callable[[], None], function: str | None, names: list[str | None], cause: str
) -> None:
    report = watched(loop)
    assert report.status == "leak", str(report)
    (finding,) = report.findings
    assert (finding.device, finding.verdict, finding.cause) == ("host", "growing", cause)
    assert finding.allocated_at.function == function
    assert [link.name for link in finding.retained_by] == names
    last = finding.retained_by[-1]
    assert (last.edge, last.type is not None and last.type.endswith(f", {finding.blocks} nodes")) == (
        "grad_fn",
        True,
    )
    assert finding.blocks_per_step >= 1
    assert finding.retained_bytes == finding.bytes >= 0


def losses_as_numbers() -> None:
    total = 0.0
    for loss in training():
        total += loss.item()


def state_that_is_detached() -> None:
    state = torch.zeros(4)
    for loss in training():
        state = (0.9 * state + loss).detach()


def a_long_graph_in_each_step() -> None:
    x = torch.rand(4, requires_grad=True)
    for _ in training():
        y = x
        for _ in range(200):
            y = y + 1.0


def python_objects_pile_up() -> None:
    kept = []
    numbers = count()
    for _ in training():
        kept += [[next(numbers)] * 20 for _ in range(50)]  # no matter of ours


@pytest.mark.parametrize(
    "loop", [losses_as_numbers, state_that_is_detached, a_long_graph_in_each_step, python_objects_pile_up]
)
def test_what_does_not_grow_is_not_accused(loop: Callable[[], None]) -> None:
    report = watched(loop)
    assert report.status == "clean", str(report)


def test_a_leak_in_blocks_is_no_tail_as_well() -> None:
    def keeps_attached_losses() -> None:
        losses = []
        for loss in training():
            losses.append(loss)

    report = watched(keeps_attached_losses)
    assert [finding.device for finding in report.findings] == ["cpu"]


def test_a_new_start_forgets_tails() -> None:
    with leakguard.watch(on_exit="never") as guard:
        total_of_losses()
        guard.restart()
        for _ in training():
            pass
        assert guard.report().status == "clean"


def test_the_rise_of_the_heap_gives_it_away(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(16, 16)\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.01)\n"
        "total = 0.0\n"
        "for _ in range(40):\n"
        "    loss = model(torch.rand(8, 16)).square().mean()\n"
        "    optimizer.zero_grad(); loss.backward(); optimizer.step()\n"
        "    total = total + loss\n"
    )
    report_file = tmp_path / "report.json"
    command = [sys.executable, "-m", "leakguard", "run", "--json", str(report_file), str(script)]
    subprocess.run(command, check=True, capture_output=True)
    (finding,) = leakguard.load(report_file).findings
    assert (finding.device, finding.root) == ("host", "module global train.total")
    assert finding.bytes_per_step > 512
