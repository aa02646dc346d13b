"""Training steps are found by themselves: which source, and how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import leakguard  # noqa: E402
from leakguard.guard import Guard  # noqa: E402
from leakguard.optimizer_cycle import OptimizerCycle  # noqa: E402

Watch = Callable[..., Guard]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """`leakguard.watch`, stopped at the end of the test."""
    guards: list[Guard] = []

    def begin(*modules: nn.Module) -> Guard:
        guards.append(leakguard.watch(*modules, on_exit="never"))
        return guards[-1]

    yield begin
    for guard in guards:
        guard.stop()


def steps_of(guard: Guard) -> tuple[str | None, int]:
    steps = guard.report().steps
    return steps.source, steps.count


def loss_of(model: nn.Module) -> torch.Tensor:
    return model(torch.ones(2, 4)).square().mean()


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()


def sgd(*models: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for model in models for p in model.parameters()], lr=0.01, momentum=0.9)


def test_nothing_that_looks_like_a_step(watch: Watch) -> None:
    guard = watch()
    kept = [torch.ones(4) for _ in range(10)]
    report = guard.report()
    assert (report.steps.source, report.steps.count) == (None, 0)
    assert report.status == "inconclusive"
    assert "leakguard.step()" in report.next
    assert len(kept) == 10


class TestOneOptimizer:
    def test_each_step_counts(self, watch: Watch) -> None:
        guard = watch()
        model = nn.Linear(4, 4)
        optimizer = sgd(model)
        for _ in range(15):
            train(model, optimizer)
        assert steps_of(guard) == ("optimizer", 15)

    @pytest.mark.parametrize(
        "kind",
        [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.NAdam],
    )
    def test_of_any_kind(self, watch: Watch, kind: type[torch.optim.Optimizer]) -> None:
        guard = watch()
        model = nn.Linear(4, 4)
        optimizer = kind(model.parameters())  # type: ignore[call-arg]
        for _ in range(9):
            train(model, optimizer)
        assert steps_of(guard) == ("optimizer", 9)

    def test_made_before_watching_begins(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = sgd(model)
        train(model, optimizer)
        guard = watch(model)
        for _ in range(5):
            train(model, optimizer)
        assert steps_of(guard) == ("optimizer", 5)

    def test_accumulation_counts_the_optimizer_s_steps(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = sgd(model)
        guard = watch(model)
        for micro in range(24):
            loss_of(model).backward()
            if micro % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
        # the backward passes before the first optimizer step were steps of a worse source
        assert steps_of(guard) == ("optimizer", 6)

    def test_a_closure_that_runs_often_is_one_step(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
        guard = watch(model)
        calls = 0

        def closure() -> torch.Tensor:
            nonlocal calls
            calls += 1
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss

        for _ in range(7):
            optimizer.step(closure)
        assert calls > 7
        assert steps_of(guard) == ("optimizer", 7)

    def test_a_schedule_adds_none(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = sgd(model)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        guard = watch(model)
        for _ in range(8):
            train(model, optimizer)
            schedule.step()
        assert steps_of(guard) == ("optimizer", 8)

    def test_a_step_that_raises_is_none(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = torch.optim.LBFGS(model.parameters())
        guard = watch(model)

        def closure() -> torch.Tensor:
            raise ArithmeticError("no loss today")

        for _ in range(3):
            with pytest.raises(ArithmeticError):
                optimizer.step(closure)
        assert steps_of(guard)[1] == 0

    def test_evaluation_phases_add_none(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = sgd(model)
        guard = watch(model)
        for _ in range(4):
            for _ in range(3):
                train(model, optimizer)
            with torch.no_grad():
                for _ in range(5):
                    model(torch.ones(2, 4))
        assert steps_of(guard) == ("optimizer", 12)


class TestScaler:
    def test_a_skipped_step_counts(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = sgd(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        guard = watch(model)
        skipped = 0
        for step in range(12):
            optimizer.zero_grad()
            loss = loss_of(model) * (float("inf") if step % 4 == 3 else 1.0)
            scaler.scale(loss).backward()
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            skipped += scaler.get_scale() < before
        assert skipped == 3
        assert steps_of(guard) == ("optimizer", 12)

    def test_a_scaler_that_is_off_counts_once(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = sgd(model)
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        guard = watch(model)
        for _ in range(6):
            optimizer.zero_grad()
            scaler.scale(loss_of(model)).backward()
            scaler.step(optimizer)
            scaler.update()
        assert steps_of(guard) == ("optimizer", 6)

    def test_what_the_step_returns_comes_back(self, watch: Watch) -> None:
        watch()
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        assert scaler.step(optimizer) is None
        # a scaler hands on what the optimizer's step returns
        optimizer.step = lambda: "moved"  # type: ignore[method-assign, assignment, return-value]
        assert scaler.step(optimizer) == "moved"


class TestSeveralOptimizers:
    def test_in_step_with_each_other(self, watch: Watch) -> None:
        actor, critic = nn.Linear(4, 4), nn.Linear(4, 4)
        for_actor, for_critic = sgd(actor), sgd(critic)
        guard = watch(actor, critic)
        for _ in range(10):
            train(actor, for_actor)
            train(critic, for_critic)
        source, count = steps_of(guard)
        assert source == "optimizer"
        assert 10 <= count <= 11  # before the second one is known, the first one's step is one

    def test_five_to_one(self, watch: Watch) -> None:
        generator, critic = nn.Linear(4, 4), nn.Linear(4, 4)
        for_generator, for_critic = sgd(generator), sgd(critic)
        guard = watch(generator, critic)
        for step in range(60):
            train(critic, for_critic)
            if step % 5 == 4:
                train(generator, for_generator)
        source, count = steps_of(guard)
        assert source == "optimizer"
        assert 12 <= count <= 17

    def test_one_that_is_retired_does_not_stop_the_count(self, watch: Watch) -> None:
        first, second = nn.Linear(4, 4), nn.Linear(4, 4)
        for_first, for_second = sgd(first), sgd(second)
        guard = watch(first, second)
        for _ in range(10):
            train(second, for_second)
            train(first, for_first)
        for _ in range(20):
            train(second, for_second)
        source, count = steps_of(guard)
        assert source == "optimizer"
        assert 28 <= count <= 32

    def test_one_that_joins_late_and_steps_seldom(self, watch: Watch) -> None:
        body, head = nn.Linear(4, 4), nn.Linear(4, 4)
        for_body, for_head = sgd(body), sgd(head)
        guard = watch(body, head)
        for _ in range(12):
            train(body, for_body)
        for step in range(40):
            train(body, for_body)
            if step % 4 == 3:
                train(head, for_head)
        source, count = steps_of(guard)
        assert source == "optimizer"
        assert 12 + 10 <= count <= 12 + 10 + 4

    def test_a_new_one_each_step_counts_as_one(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        guard = watch(model)
        for _ in range(20):
            train(model, sgd(model))
        assert steps_of(guard) == ("optimizer", 20)

    def test_a_new_one_each_epoch(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        guard = watch(model)
        for _ in range(5):
            optimizer = sgd(model)
            for _ in range(6):
                train(model, optimizer)
        source, count = steps_of(guard)
        assert source == "optimizer"
        assert count == 30

    def test_many_that_step_one_after_the_other(self, watch: Watch) -> None:
        layers = [nn.Linear(4, 4) for _ in range(6)]
        optimizers = [sgd(layer) for layer in layers]
        guard = watch()
        for _ in range(15):
            for layer, optimizer in zip(layers, optimizers, strict=True):
                train(layer, optimizer)
        source, count = steps_of(guard)
        assert source == "optimizer"
        assert 15 <= count <= 20

    def test_optimizers_are_not_kept_alive(self) -> None:
        import weakref

        class Optimizer:
            pass

        cycle = OptimizerCycle()
        gone = []
        for _ in range(10):
            optimizer = Optimizer()
            assert cycle.ends_step(optimizer)
            gone.append(weakref.ref(optimizer))
        del optimizer
        assert all(ref() is None for ref in gone)


class TestWithoutOptimizer:
    def test_backward_passes(self, watch: Watch) -> None:
        weight = torch.ones(4, requires_grad=True)
        guard = watch()
        for _ in range(11):
            weight.square().sum().backward()
            with torch.no_grad():
                weight -= 0.1
        assert steps_of(guard) == ("backward", 11)

    def test_torch_autograd_backward_called_by_name(self, watch: Watch) -> None:
        weight = torch.ones(4, requires_grad=True)
        guard = watch()
        for _ in range(5):
            torch.autograd.backward([weight.sum(), weight.square().sum()])
        assert steps_of(guard) == ("backward", 5)

    def test_a_backward_inside_a_backward_is_no_step(self, watch: Watch) -> None:
        from torch.utils.checkpoint import checkpoint

        model = nn.Linear(4, 4)
        guard = watch()
        for _ in range(6):
            inputs = torch.ones(2, 4, requires_grad=True)
            checkpoint(model, inputs, use_reentrant=True).sum().backward()
        assert steps_of(guard) == ("backward", 6)

    def test_a_backward_that_raises_is_none(self, watch: Watch) -> None:
        guard = watch()
        loss = torch.ones((), requires_grad=True).square()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        torch.ones((), requires_grad=True).square().backward()
        assert steps_of(guard) == ("backward", 2)

    def test_forward_of_the_watched_model(self, watch: Watch) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        guard = watch(model)
        with torch.no_grad():
            for _ in range(13):
                model(torch.ones(2, 4))
        assert steps_of(guard) == ("forward", 13)

    def test_forward_of_a_model_that_nobody_named(self, watch: Watch) -> None:
        guard = watch()
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        with torch.inference_mode():
            for _ in range(13):
                model(torch.ones(2, 4))
        assert steps_of(guard) == ("forward", 12)  # the model was met inside its first forward

    def test_the_busiest_of_two_models(self, watch: Watch) -> None:
        encoder, decoder = nn.Linear(4, 4), nn.Linear(4, 4)
        guard = watch(encoder, decoder)
        with torch.no_grad():
            for _ in range(5):
                memory = encoder(torch.ones(2, 4))
                for _ in range(4):
                    memory = decoder(memory)
        source, count = steps_of(guard)
        assert source == "forward"
        assert 20 <= count <= 21

    def test_a_forward_that_raises_is_over_too(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        guard = watch(model)
        for _ in range(3):
            with pytest.raises(RuntimeError):
                model(torch.ones(2, 5))
            model(torch.ones(2, 4))
        source, count = steps_of(guard)
        assert source == "forward"
        assert count == 6

    def test_a_model_added_later(self, watch: Watch) -> None:
        guard = watch(nn.Linear(4, 4))
        model = nn.Linear(4, 4)
        assert watch(model) is guard
        with torch.no_grad():
            for _ in range(9):
                model(torch.ones(2, 4))
        assert steps_of(guard) == ("forward", 9)


class TestBetterSources:
    def test_from_forward_to_optimizer(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = sgd(model)
        guard = watch(model)
        with torch.no_grad():
            for _ in range(10):
                model(torch.ones(2, 4))
        assert steps_of(guard) == ("forward", 10)
        for _ in range(4):
            train(model, optimizer)
        assert steps_of(guard) == ("optimizer", 4)
        assert not model._forward_hooks
        assert not model._forward_pre_hooks

    def test_explicit_steps_win(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = sgd(model)
        guard = watch(model)
        for _ in range(6):
            train(model, optimizer)
        for _ in range(5):
            train(model, optimizer)
            train(model, optimizer)
            leakguard.step()
        assert steps_of(guard) == ("explicit", 5)

    def test_guard_step_is_the_same(self, watch: Watch) -> None:
        guard = watch()
        for _ in range(3):
            guard.step()
        assert steps_of(guard) == ("explicit", 3)

    def test_a_worse_source_never_takes_over(self, watch: Watch) -> None:
        model = nn.Linear(4, 4)
        optimizer = sgd(model)
        guard = watch(model)
        for _ in range(4):
            train(model, optimizer)
        for _ in range(10):
            loss_of(model).backward()
            model(torch.ones(2, 4))
        assert steps_of(guard) == ("optimizer", 4)

    def test_warm_up_is_said_apart(self, watch: Watch) -> None:
        guard = watch()
        for _ in range(11):
            guard.step()
        report = guard.report()
        assert report.status == "inconclusive"
        guard.step()
        assert guard.report().status == "clean"
        assert report.steps.warmup == 4
