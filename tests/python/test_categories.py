"""What each live block is, against what the test itself knows: which tensors are parameters, gradients, state."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from training_zoo import LOOPS, Mlp, state_tensors  # noqa: E402

import leakguard  # noqa: E402
from leakguard._native import core  # noqa: E402
from leakguard.findings import Growing, findings_of  # noqa: E402
from leakguard.guard import Guard  # noqa: E402
from leakguard.holders import held_of  # noqa: E402
from leakguard.memory_snapshot import Snapshot  # noqa: E402
from leakguard.report import Place, Steps  # noqa: E402
from leakguard.sites import Site  # noqa: E402

MOST_UNKNOWN = 0.02


@pytest.fixture
def guard() -> Iterator[Guard]:
    with leakguard.watch(on_exit="never") as watching:
        yield watching


class Roles:
    """Category and module of each block of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._by_address = {
            address: (group.category, group.place.module)
            for group in snapshot.groups
            for address, *_ in group.keys
        }

    def __getitem__(self, tensor: torch.Tensor) -> str:
        return self._by_address[tensor.untyped_storage().data_ptr()][0]

    def module(self, tensor: torch.Tensor) -> str | None:
        return self._by_address[tensor.untyped_storage().data_ptr()][1]

    def of(self, tensors: object) -> set[str]:
        return {self[tensor] for tensor in tensors}  # type: ignore[attr-defined]

    def unknown_share(self, device: str) -> float:
        sums = {use.category: use.bytes for use in self.snapshot.by_category() if use.device == device}
        return sums.get("unknown", 0) / sum(sums.values())

    def bytes_of(self, category: str) -> int:
        return sum(use.bytes for use in self.snapshot.by_category() if use.category == category)


def test_each_kind_of_model_at_each_moment(guard: Guard) -> None:
    check_every_loop(guard, "cpu")


def check_every_loop(guard: Guard, device: str) -> None:
    before = Roles(guard.snapshot()).bytes_of("autograd_detail")  # other tests', where a process runs many
    for name, make in LOOPS.items():
        loop = make(device)
        guard.add(loop.model)
        moments: list[str] = []

        def visit(moment: str) -> None:
            moments.append(moment)
            roles = Roles(guard.snapshot())
            where = f"{name}, {moment}"
            assert roles.unknown_share(device) < MOST_UNKNOWN, where
            assert roles.of(loop.model.parameters()) == {"parameter"}, where
            assert roles.of(loop.model.buffers()) <= {"buffer"}, where
            gradients = [p.grad for p in loop.model.parameters() if p.grad is not None]
            assert roles.of(gradients) <= {"gradient"}, where
            states = [state for optimizer in loop.optimizers for state in state_tensors(optimizer)]
            assert roles.of(state for _, state in states if str(state.device) == device) <= {
                "optimizer_state"
            }, where
            for parameter, state in states:
                if str(state.device) == device:
                    assert roles.module(state) == roles.module(parameter) is not None, where
            assert roles.of(loop.inputs.values()) == {"input"}, where
            if moment == "after forward":
                assert roles.bytes_of("activation") > 0, where
            if moment == "step end":
                assert gradients, where
                assert states, where
                assert roles.bytes_of("autograd_detail") <= before, where

        loop.step(lambda _: None)
        loop.step(visit)
        assert moments == ["after forward", "mid-backward", "step end"]


def test_what_the_graph_keeps_is_activations_by_module(guard: Guard) -> None:
    model = Mlp()
    guard.add(model)
    x = torch.randn(64, 128)
    made: dict[str, torch.Tensor] = {}
    model.first.register_forward_hook(lambda module, _, out: made.update(first=out))
    out = model(x)
    roles = Roles(guard.snapshot())
    assert (roles[made["first"]], roles.module(made["first"])) == ("activation", "first")
    assert (roles[out], roles.module(out)) == ("activation", "last")
    assert roles[x] == "input"
    assert roles.module(model.norm.running_mean) == "norm"


def test_a_functional_loop_without_modules(guard: Guard) -> None:
    w = torch.randn(64, 64, requires_grad=True)
    x = torch.randn(32, 64)
    hidden = torch.relu(x @ w)
    roles = Roles(guard.snapshot())
    assert roles[hidden] == "activation"
    assert roles[x] == "input"
    hidden.sum().backward()
    assert Roles(guard.snapshot())[w.grad] == "gradient"


def test_tied_weights_views_and_frozen_modules(guard: Guard) -> None:
    model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20, bias=False))
    model[1].weight = model[0].weight
    frozen = nn.Linear(20, 8).requires_grad_(False)
    rows = model[0].weight.detach()[3:7].view(-1)
    out = frozen(model(torch.arange(20)))
    out.sum().backward()
    roles = Roles(guard.snapshot())
    assert roles[rows] == roles[model[1].weight] == "parameter"
    assert roles[frozen.weight] == "parameter"
    assert roles[model[0].weight.grad] == "gradient"


def test_a_model_nobody_named(guard: Guard) -> None:
    guard.add(nn.Linear(4, 4))
    stranger = Mlp()
    roles = Roles(guard.snapshot())
    assert roles.of(stranger.parameters()) == {"parameter"}
    assert roles.of(stranger.buffers()) == {"buffer"}
    assert roles.module(stranger.first.weight) == "Mlp.first"


def test_parameters_of_a_dropped_model(guard: Guard) -> None:
    model = Mlp()
    optimizer = torch.optim.Adam(model.parameters())
    kept = list(model.parameters())
    running = model.norm.running_mean
    del model
    roles = Roles(guard.snapshot())
    assert roles.of(kept) == {"parameter"}
    assert roles[running] != "buffer"
    assert len(optimizer.param_groups) == 1


def test_gradients_that_accumulate_and_two_optimizers(guard: Guard) -> None:
    model = nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 4))
    first = torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)
    second = torch.optim.Adam(model[1].parameters(), amsgrad=True)
    for _ in range(3):
        F.mse_loss(model(torch.randn(8, 32)), torch.zeros(8, 4)).backward()
    roles = Roles(guard.snapshot())
    assert roles.of(p.grad for p in model.parameters()) == {"gradient"}
    assert roles.module(model[1].weight.grad) == roles.module(model[1].weight) is not None
    first.step()
    second.step()
    roles = Roles(guard.snapshot())
    for optimizer in (first, second):
        assert roles.of(state for _, state in state_tensors(optimizer)) == {"optimizer_state"}


def test_an_optimizer_that_nests_its_state(guard: Guard) -> None:
    model = nn.Linear(16, 16)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, history_size=3)
    x = torch.randn(8, 16)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    (state,) = optimizer.state.values()
    roles = Roles(guard.snapshot())
    assert roles.of(state["old_dirs"]) == {"optimizer_state"}
    assert roles.of(model.parameters()) == {"parameter"}


def test_sparse_gradients(guard: Guard) -> None:
    model = nn.Embedding(100, 16, sparse=True)
    model(torch.tensor([1, 2, 3])).sum().backward()
    gradient = model.weight.grad
    assert gradient is not None
    roles = Roles(guard.snapshot())
    assert roles[gradient._values()] == "gradient"
    assert roles[model.weight] == "parameter"


def test_a_wrapper_is_what_it_wraps(guard: Guard) -> None:
    class Wrapped(torch.Tensor):
        inner: torch.Tensor

        @staticmethod
        def __new__(cls, inner: torch.Tensor) -> Wrapped:
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, function: object, types: object, args: object, kwargs: object) -> object:
            return NotImplemented

        @classmethod
        def __torch_function__(cls, function: object, types: object, args: object, kwargs: object) -> object:
            calls.append(function)
            return NotImplemented

    calls: list[object] = []
    inner = torch.randn(32, 32)
    module = nn.Module()
    module._parameters["weight"] = Wrapped(inner)  # type: ignore[assignment]
    calls.clear()
    assert Roles(guard.snapshot())[inner] == "parameter"
    assert calls == []


def test_gradients_of_gradients(guard: Guard) -> None:
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))
    x = torch.randn(16, 32, requires_grad=True)
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    penalty = slope.square().sum()
    roles = Roles(guard.snapshot())
    assert roles[slope] in ("gradient", "autograd_detail")
    assert roles[x] == "input"
    assert roles.bytes_of("autograd_detail") > 0
    penalty.backward()
    assert Roles(guard.snapshot()).bytes_of("gradient") >= sum(p.nbytes for p in model.parameters())


def test_asking_keeps_nothing(guard: Guard) -> None:
    model = Mlp()
    twin = copy.deepcopy(model)
    before = guard.snapshot()
    del twin
    after = guard.snapshot()
    assert {use.category for use in before.diff(after).by_category()} == {"parameter", "buffer"}
    assert -before.diff(after).bytes == sum(t.nbytes for t in model.state_dict().values())


def test_a_finding_says_the_same(guard: Guard) -> None:
    model = Mlp()
    guard.add(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    outputs, batches, gradients = [], [], []
    for _ in range(16):
        batches.append(torch.randn(64, 128))
        outputs.append(model(batches[-1]))
        optimizer.zero_grad()
        outputs[-1].square().mean().backward()
        gradients.append(model.first.weight.grad)
        optimizer.step()
    found = {finding.allocated_at.expression: finding.category for finding in guard.report().findings}
    assert found["torch.randn(64, 128)"] == "input"
    assert set(found.values()) == {"input", "activation", "gradient"}


def test_what_nobody_holds_is_said_so(guard: Guard) -> None:
    (suspect,) = core.find_holders([1 << 40], [0])["suspects"]
    growing = Growing(Site(0, "cpu", Place()), 1, 40, 40, 40, 4000, 1.0, 100.0, held_of(suspect, 40))
    (finding,) = findings_of([growing], Steps(count=40, warmup=4, source="optimizer"))
    assert finding.verdict == "no-owner"
    assert "C++" in finding.why
