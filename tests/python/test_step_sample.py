"""A step seen from inside: its peak is the ledger's, and what was alive then is what the test knows of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from training_zoo import LOOPS, state_tensors  # noqa: E402

import leakguard  # noqa: E402
from leakguard._native import core  # noqa: E402
from leakguard.guard import Guard  # noqa: E402
from leakguard.step_sample import StepSample  # noqa: E402

MOST_UNKNOWN = 0.02
MIB = 1 << 20


@pytest.fixture
def guard() -> Iterator[Guard]:
    with leakguard.watch(on_exit="never") as watching:
        yield watching


def quiet(_: str) -> None:
    pass


def peak_of_step(guard: Guard, step: int, device: str) -> int:
    (row,) = [row for row in guard.table().rows if row.device == device and row.first_step == step]
    return row.peak


@pytest.mark.parametrize("name", LOOPS)
def test_the_peak_of_each_kind_of_model(guard: Guard, name: str) -> None:
    check_peak(guard, name, "cpu")


def check_peak(guard: Guard, name: str, device: str) -> None:
    loop = LOOPS[name](device)
    guard.add(loop.model)
    for count in range(4):
        if count == 2:
            guard.sample_step()
        loop.step(quiet)
        leakguard.step()
    assert guard.sample() is not None
    sample = guard.sample()
    assert sample.missed_events == 0
    assert {"step begin", "after forward", "mid-backward", "step end", "peak"} == {
        moment.name for moment in sample.moments
    }
    for moment in sample.moments:
        whole = moment.bytes_of(device)
        assert moment.bytes_of(device, "unknown") < MOST_UNKNOWN * whole, moment.name
        parameters = {
            p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in loop.model.parameters()
        }
        assert moment.bytes_of(device, "parameter") >= sum(parameters.values())
        states = [
            state for one in loop.optimizers for _, state in state_tensors(one) if str(state.device) == device
        ]
        assert moment.bytes_of(device, "optimizer_state") >= sum(state.nbytes for state in states)
    peak = sample.moment("peak")
    assert peak.bytes_of(device) == peak_of_step(guard, sample.step, device)
    assert peak.bytes_of(device) >= max(moment.bytes_of(device) for moment in sample.moments)
    assert peak.bytes_of(device, "activation") + peak.bytes_of(device, "optimizer_state") > 0
    end = sample.moment("step end")
    gradients = sum(p.grad.nbytes for p in loop.model.parameters() if p.grad is not None)
    assert end.bytes_of(device, "gradient") >= gradients > 0
    assert peak.bytes_of(device, "gradient") <= 1.01 * end.bytes_of(device, "gradient")


class Wasteful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        with torch.no_grad():
            big = torch.ones(1 << 19)
            big = big * 2
        return y + big[0]


def test_what_is_gone_before_anybody_looks_is_temporary(guard: Guard) -> None:
    model = Wasteful()
    guard.add(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for count in range(3):
        if count == 1:
            guard.sample_step()
        model(torch.randn(8, 64)).sum().backward()
        optimizer.step()
    sample = guard.sample()
    assert sample is not None
    peak = sample.moment("peak")
    assert peak is not None
    (wasted,) = [one for one in peak.memory if (one.category, one.module) == ("temporary", "Wasteful")]
    assert 4 * MIB <= wasted.bytes < 4 * MIB + 1024
    for moment in sample.moments:
        if moment.name != "peak":
            assert moment.bytes_of("cpu", "temporary") < MIB


def test_nothing_is_recorded_unasked_and_nothing_stays(guard: Guard) -> None:
    model = nn.Linear(8, 8)
    guard.add(model)
    for _ in range(2):
        model(torch.ones(2, 8)).sum().backward()
        leakguard.step()
    assert guard.sample() is None
    assert core.end_record() == ([], 0)
    guard.sample_step()
    for _ in range(2):
        model(torch.ones(2, 8)).sum().backward()
        leakguard.step()
    assert guard.sample() is not None
    assert core.end_record() == ([], 0)
    assert not model._forward_hooks
    assert not model.weight._post_accumulate_grad_hooks
    assert not model.bias._post_accumulate_grad_hooks


def test_stopping_in_the_middle_takes_everything_back() -> None:
    model = nn.Linear(8, 8)
    with leakguard.watch(model, on_exit="never") as guard:
        leakguard.step()
        guard.sample_step()
        leakguard.step()
        assert model._forward_hooks
    assert not model._forward_hooks
    assert core.end_record() == ([], 0)
    assert guard.sample() is None


def test_a_sample_is_a_value_and_reads_well(guard: Guard) -> None:
    model = nn.Linear(256, 256)
    guard.add(model)
    guard.sample_step()
    for _ in range(3):
        model(torch.ones(2, 256)).sum().backward()
        leakguard.step()
    sample = guard.sample()
    assert sample is not None
    assert StepSample.from_dict(json.loads(json.dumps(sample.to_dict()))) == sample
    text = str(sample)
    assert "alive at the peak" in text
    assert "parameter" in text
    assert "<table" in sample._repr_html_()
