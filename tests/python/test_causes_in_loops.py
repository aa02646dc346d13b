"""Causes as real loops bring them up: what the walk sees has to be what the patterns ask for."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import leakguard
from leakguard.report import Report

STEPS = 16


@pytest.fixture(autouse=True)
def quiet_process() -> Iterator[None]:
    gc.collect()
    yield
    gc.enable()
    gc.collect()


def watched(loop: Callable[[], object]) -> Report:
    with leakguard.watch(on_exit="never") as guard:
        loop()
        return guard.report()


def training(retain: bool = False) -> Iterator[torch.Tensor]:
    """The outputs of a training loop, each after its backward pass."""
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(STEPS):
        output = model(torch.rand(8, 16))
        optimizer.zero_grad()
        output.square().mean().backward(retain_graph=retain)
        optimizer.step()
        yield output


class Scores:
    """Keeps what it is given; cannot be reset."""

    def __init__(self) -> None:
        self.seen: list[torch.Tensor] = []

    def update(self, value: torch.Tensor) -> None:
        self.seen.append(value)


class Metric(Scores):
    """As torchmetrics has them."""

    def reset(self) -> None:
        self.seen.clear()


@dataclass(slots=True)
class Record:
    """One of a chain."""

    value: torch.Tensor
    previous: Record | None


class Double(torch.autograd.Function):
    """Keeps its result on ctx."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.result = x * 2
        return ctx.result.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


class Saving(Double):
    """The same by the book."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        result = x * 2
        ctx.save_for_backward(result)
        return result.clone()


def outputs_of_a_retained_graph() -> None:
    kept = []
    for output in training(retain=True):
        kept.append(output)


def outputs_of_a_freed_graph() -> None:
    kept = []
    for output in training():
        kept.append(output)


def detached_outputs_of_a_retained_graph() -> None:
    kept = []
    for output in training(retain=True):
        kept.append(output.detach())


def metric_that_is_not_reset() -> None:
    metric = Metric()
    for output in training():
        metric.update(output.detach())


def scores_that_cannot_be_reset() -> None:
    scores = Scores()
    for output in training():
        scores.update(output.detach())


def hidden_state_carried() -> None:
    cell = nn.RNNCell(16, 16)
    hidden = torch.zeros(8, 16)
    for output in training():
        hidden = cell(output.detach(), hidden)


def chain_of_records() -> None:
    newest = None
    for output in training():
        newest = Record(output.detach(), newest)


def results_of(function: type[torch.autograd.Function]) -> None:
    kept, weight = [], torch.rand(8, 16, requires_grad=True)
    for _ in training():
        result = function.apply(weight).sum()
        result.backward()
        kept.append(result)


def contexts_with_an_attribute() -> None:
    results_of(Double)


def contexts_by_the_book() -> None:
    results_of(Saving)


def optimizers_of_replaced_heads() -> None:
    optimizers = []
    for output in training():
        head = nn.Linear(16, 16)
        optimizer = torch.optim.Adam(head.parameters())
        head(output.detach()).square().mean().backward()
        optimizer.step()
        optimizers.append(optimizer)


def gradients_that_have_a_graph() -> None:
    for _ in training():
        weight = torch.rand(16, requires_grad=True)
        weight.square().sum().backward(create_graph=True)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize(
    ("loop", "cause"),
    [
        (outputs_of_a_retained_graph, "graph-retained"),
        (outputs_of_a_freed_graph, "container-without-limit"),
        (detached_outputs_of_a_retained_graph, "container-without-limit"),
        (metric_that_is_not_reset, "metric-never-reset"),
        (scores_that_cannot_be_reset, "container-without-limit"),
        (hidden_state_carried, "state-carried-in-graph"),
        (chain_of_records, "linked-records"),
        (contexts_with_an_attribute, "context-attribute"),
        (contexts_by_the_book, "container-without-limit"),
        (optimizers_of_replaced_heads, "optimizers-in-a-registry"),
        (gradients_that_have_a_graph, "graph-cycle"),
    ],
)
def test_a_loop_gets_its_cause(loop: Callable[[], None], cause: str) -> None:
    report = watched(loop)
    assert report.status == "leak", str(report)
    assert report.findings[0].cause == cause, str(report)
    assert report.findings[0].fix


def numbers() -> None:
    kept = []
    for output in training():
        kept.extend(output.flatten().tolist())


def gradients_of_gradients_by_the_book() -> None:
    for _ in training():
        weight = torch.rand(16, requires_grad=True)
        (gradient,) = torch.autograd.grad(weight.square().sum(), weight, create_graph=True)
        gradient.square().sum().backward()


def gradients_that_are_reset() -> None:
    for _ in training():
        weight = torch.rand(16, requires_grad=True)
        weight.square().sum().backward(create_graph=True)
        weight.grad = None


def metric_that_is_reset() -> None:
    metric = Metric()
    for output in training():
        metric.update(output.detach())
        metric.reset()


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize(
    "loop",
    [numbers, gradients_of_gradients_by_the_book, gradients_that_are_reset, metric_that_is_reset],
)
def test_what_looks_like_it_is_no_finding(loop: Callable[[], None]) -> None:
    report = watched(loop)
    assert (report.status, report.findings) == ("clean", ()), str(report)
