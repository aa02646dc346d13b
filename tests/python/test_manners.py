"""What leakguard must never do to the program it watches, a test for each promise; in this process."""

from __future__ import annotations

import copy
import gc
import importlib
import io
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.optim import optimizer as optimizers  # noqa: E402

import leakguard  # noqa: E402
from leakguard import engine  # noqa: E402
from leakguard import guard as guard_module  # noqa: E402
from leakguard._native import core  # noqa: E402
from leakguard.report import ReportError  # noqa: E402


@pytest.fixture(autouse=True)
def nobody_watches() -> Iterator[None]:
    assert guard_module.current() is None
    yield
    left = guard_module.current()
    if left is not None:
        left.stop()
    assert left is None, "the test left a guard behind"


def train(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()


def traces() -> dict[str, Any]:
    """Everything of torch's that watching may touch."""
    return {
        "backward": torch.autograd.backward,
        "storage copies": torch.storage._StorageBase.clone,
        "scaler": torch.amp.GradScaler.step,
        "optimizer hooks": dict(optimizers._global_optimizer_post_hooks),
        "optimizer pre-hooks": dict(optimizers._global_optimizer_pre_hooks),
        "module hooks": dict(nn.modules.module._global_forward_hooks),
        "module pre-hooks": dict(nn.modules.module._global_forward_pre_hooks),
        "allocator": core.cpu_attached(),
        "recording": core.watching(),
        "import finders": list(sys.meta_path),
    }


def hooks_of(model: nn.Module) -> int:
    return sum(
        len(hooks)
        for module in model.modules()
        for hooks in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    )


class TestAfterStop:
    def test_everything_is_as_before(self) -> None:
        model = nn.Linear(4, 4)
        before = traces()
        assert not before["allocator"]
        guard = leakguard.watch(model, on_exit="never")
        during = traces()
        assert during["allocator"]
        assert during["recording"]
        assert hooks_of(model) > 0
        guard.stop()
        assert traces() == before
        assert hooks_of(model) == 0

    def test_also_when_watching_ended_with_an_exception(self) -> None:
        before = traces()
        with pytest.raises(ArithmeticError), leakguard.watch(on_exit="never"):
            raise ArithmeticError
        assert traces() == before

    def test_nothing_is_recorded(self) -> None:
        model = nn.Linear(4, 4)
        guard = leakguard.watch(model, on_exit="never")
        train(model, 15)
        guard.stop()
        born = core.counts("cpu")[4]
        steps = guard.report().steps
        train(model, 5)
        leakguard.step()
        guard.step()
        assert core.counts("cpu")[4] == born
        assert guard.report().steps == steps

    def test_what_was_born_before_may_die_after(self) -> None:
        guard = leakguard.watch(on_exit="never")
        before = core.counts("cpu")[0]
        tensors = [torch.ones(100) for _ in range(50)]
        assert core.counts("cpu")[0] == before + 50
        guard.stop()
        values = [float(tensor.sum()) for tensor in tensors]
        tensors.clear()
        assert core.counts("cpu")[0] == before
        assert values == [100.0] * 50

    def test_the_report_stays(self) -> None:
        guard = leakguard.watch(on_exit="never")
        train(nn.Linear(4, 4), 15)
        guard.stop()
        report = guard.report()
        assert (report.status, report.steps.count) == ("clean", 15)
        guard.stop()
        assert guard.report() is report

    def test_a_function_that_somebody_wrapped_again_is_left_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = torch.autograd.backward
        guard = leakguard.watch(on_exit="never")
        ours = torch.autograd.backward

        def theirs(*args: Any, **kwargs: Any) -> None:
            ours(*args, **kwargs)

        monkeypatch.setattr(torch.autograd, "backward", theirs)
        torch.ones((), requires_grad=True).square().backward()
        guard.stop()
        assert torch.autograd.backward is theirs
        torch.ones((), requires_grad=True).square().backward()
        assert guard.report().steps.count == 1
        torch.autograd.backward = original

    def test_watching_can_begin_again(self) -> None:
        counts = []
        for _ in range(3):
            with leakguard.watch(on_exit="never") as guard:
                train(nn.Linear(4, 4), 14)
            counts.append((guard.report().steps.count, guard.report().status, guard.report().lost.events))
        assert counts == [(14, "clean", 0)] * 3

    def test_a_leak_of_an_earlier_watch_is_not_this_one_s(self) -> None:
        kept = []
        with leakguard.watch(on_exit="never") as first:
            for _ in range(20):
                kept.append(torch.ones(8))
                leakguard.step()
        with leakguard.watch(on_exit="never") as second:
            for _ in range(20):
                leakguard.step()
        assert first.report().status == "leak"
        assert second.report().status == "clean"


class TestOneGuard:
    def test_watching_twice_is_watching_once(self) -> None:
        with leakguard.watch(on_exit="never") as guard:
            assert leakguard.watch(on_exit="never") is guard
            train(nn.Linear(4, 4), 7)
            assert guard.report().steps.count == 7

    def test_two_models_are_both_known(self) -> None:
        first, second = nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4))
        kept = []
        with leakguard.watch(first, on_exit="never") as guard:
            leakguard.watch(second, on_exit="never")
            for _ in range(20):
                kept.append(first(torch.ones(2, 4)).detach())
                kept.append(second(torch.ones(2, 4)).detach())
                leakguard.step()
            report = guard.report()
        modules = {
            place.module
            for finding in report.findings
            for place in (finding.allocated_at, *finding.also_born_at)
            if place.phase == "forward"
        }
        assert len(modules) == 2
        assert None not in modules

    def test_reloading_the_package(self) -> None:
        with leakguard.watch(on_exit="never") as guard:
            importlib.reload(leakguard)
            assert leakguard.watch(on_exit="never") is guard

    def test_reloading_the_guard_s_module(self) -> None:
        guard = leakguard.watch(on_exit="never")
        try:
            importlib.reload(guard_module)
            assert guard_module.watch(on_exit="never") is guard
            train(nn.Linear(4, 4), 3)
            assert guard.report().steps.count == 3
        finally:
            guard.stop()
        # stop() was the old class's, and it knew only the old module's name for the guard
        assert not guard.active
        assert guard_module.current() is None


class TestThreads:
    def test_begun_in_a_thread(self) -> None:
        guards = []

        def begin() -> None:
            guards.append(leakguard.watch(on_exit="never"))

        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
        (guard,) = guards
        train(nn.Linear(4, 4), 13)
        assert guard.report().steps.count == 13
        guard.stop()

    def test_training_in_a_thread(self) -> None:
        kept: list[torch.Tensor] = []

        def loop() -> None:
            for _ in range(20):
                train(model, 1)
                kept.append(torch.ones(16))

        model = nn.Linear(4, 4)
        guard = leakguard.watch(model, on_exit="never")
        thread = threading.Thread(target=loop)
        thread.start()
        thread.join()
        report = guard.report()
        guard.stop()
        assert (report.status, report.steps.count) == ("leak", 20)
        assert report.findings[0].allocated_at.expression == "torch.ones(16)"

    def test_stopped_in_another_thread_while_training_goes_on(self) -> None:
        model = nn.Linear(4, 4)
        ending = threading.Event()
        failed: list[BaseException] = []

        def loop() -> None:
            try:
                while not ending.is_set():
                    train(model, 3)
            except BaseException as error:
                failed.append(error)

        before = traces()
        thread = threading.Thread(target=loop)
        thread.start()
        try:
            for _ in range(5):
                guard = leakguard.watch(model, on_exit="never")
                guard.report()
                guard.stop()
        finally:
            ending.set()
            thread.join()
        assert not failed
        assert traces() == before


class TestForkedChildren:
    @staticmethod
    def in_child(check: Any) -> str:
        """What `check()` returned in a forked child."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                answer = str(check())
            except BaseException as error:
                answer = f"{type(error).__name__}: {error}"
            os.write(writer, answer.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answers:
            answer = answers.read()
        assert os.waitpid(child, 0)[1] == 0
        return answer

    def test_are_inert(self) -> None:
        model = nn.Linear(4, 4)
        with leakguard.watch(model, on_exit="always") as guard:
            train(model, 3)

            def check() -> object:
                torch.set_num_threads(1)
                born = core.counts("cpu")[4]
                tensors = [torch.ones(10) for _ in range(10)]
                leakguard.step()
                guard.step()
                inner = leakguard.watch(model)
                inner.step()
                said = inner.report()
                guard.stop()
                return core.counts("cpu")[4] - born, core.watching(), said.status, said.why, len(tensors)

            answer = self.in_child(check)
            assert guard.report().steps.count == 3
            train(model, 2)
            assert guard.report().steps.count == 5
        expected = (
            0,
            False,
            "inconclusive",
            "this is a forked child of a process that leakguard has watched",
            10,
        )
        assert answer == str(expected)

    def test_may_free_what_the_parent_made(self) -> None:
        with leakguard.watch(on_exit="never"):
            tensors = [torch.ones(1000) for _ in range(20)]

            def check() -> object:
                tensors.clear()
                gc.collect()
                return "freed"

            assert self.in_child(check) == "freed"
            assert len(tensors) == 20

    def test_say_that_they_see_nothing_when_watching_is_over(self) -> None:
        leakguard.watch(on_exit="never").stop()

        def check() -> object:
            with leakguard.watch(on_exit="never") as guard:
                for _ in range(14):
                    leakguard.step()
            return guard.report().status

        assert self.in_child(check) == "inconclusive"

    def test_workers_of_a_loader(self) -> None:
        class Data(torch.utils.data.Dataset[torch.Tensor]):
            def __len__(self) -> int:
                return 8

            def __getitem__(self, index: int) -> torch.Tensor:
                inner = leakguard.watch()
                leakguard.step()
                why = inner.report().why
                return torch.tensor([float(index), float("DataLoader worker" in why), float(core.watching())])

        with leakguard.watch(on_exit="never") as guard:
            loader = torch.utils.data.DataLoader(Data(), num_workers=2, multiprocessing_context="fork")
            rows = torch.cat(list(loader))
            assert guard.report().steps.count == 0
        assert rows[:, 0].tolist() == list(range(8))
        assert rows[:, 1].all()
        assert not rows[:, 2].any()


class TestFailuresStayInside:
    def test_in_a_step_mark(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def broken(self: object) -> None:
            raise RuntimeError("injected")

        monkeypatch.setattr(engine.Engine, "_mark", broken)
        with leakguard.watch(on_exit="never") as guard:
            train(nn.Linear(4, 4), 6)
            leakguard.step()
            report = guard.report()
        assert report.lost.failures == 8  # the first backward, six steps of the optimizer, one of ours
        said = capsys.readouterr().err
        assert said.count("internal failure") == 1
        assert "RuntimeError: injected" in said
        assert "training goes on" in said

    def test_in_a_forward_hook(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(self: object, *_: object) -> None:
            raise RuntimeError("injected")

        monkeypatch.setattr("leakguard.steps.ForwardEnds._finished", broken)
        model = nn.Linear(4, 4)
        with leakguard.watch(model, on_exit="never") as guard, torch.no_grad():
            assert model(torch.ones(2, 4)).shape == (2, 4)
            assert guard.report().lost.failures == 1

    def test_in_a_report(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def broken(self: object, *_: object) -> None:
            raise LookupError("injected")

        monkeypatch.setattr(engine.Engine, "_observation", broken)
        file = tmp_path / "report.json"
        with leakguard.watch(on_exit="never", save=file) as guard:
            train(nn.Linear(4, 4), 14)
            report = guard.report()
            assert report.status == "inconclusive"
            assert "LookupError: injected" in report.why
        assert leakguard.load(file).lost.failures == 2

    def test_in_stop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = traces()

        def broken(self: object) -> None:
            raise RuntimeError("injected")

        monkeypatch.setattr("leakguard.steps.ForwardEnds.remove", broken)
        guard = leakguard.watch(on_exit="never")
        guard.stop()
        assert traces() == before

    def test_when_the_report_cannot_be_saved_any_more(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "gone"
        folder.mkdir()
        with leakguard.watch(on_exit="never", save=folder / "report.json"):
            folder.rmdir()
        assert "cannot be written" in capsys.readouterr().err

    def test_an_attach_that_fails_leaves_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(self: object) -> None:
            raise RuntimeError("injected")

        before = traces()
        monkeypatch.setattr("leakguard.steps.StepFinder.install", broken)
        with pytest.raises(RuntimeError, match="injected"):
            leakguard.watch(nn.Linear(4, 4))
        assert traces() == before
        assert guard_module.current() is None

    def test_without_a_stderr(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken() -> None:
            raise RuntimeError("nobody hears it")

        monkeypatch.setattr(sys, "stderr", None)
        with leakguard.watch(on_exit="never") as guard:
            guard.guarded(broken)()
            assert guard.report().lost.failures == 1


class TestKeepsNothing:
    def test_models_and_optimizers_die_when_they_are_dropped(self) -> None:
        with leakguard.watch(on_exit="never") as guard:
            model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            leakguard.watch(model)
            optimizer = torch.optim.Adam(model.parameters())
            for _ in range(14):
                optimizer.zero_grad()
                output = model(torch.ones(2, 4))
                output.sum().backward()
                optimizer.step()
            guard.report()
            gone = [weakref.ref(thing) for thing in (model, model[0], model[0].weight, output, optimizer)]
            gc.collect()  # what an optimizer and its own patched step leave is a cycle of torch's
            del model, optimizer, output
            gc.collect()
            assert [ref() for ref in gone] == [None] * 5

    def test_suspects_die_when_their_holder_lets_go(self) -> None:
        with leakguard.watch(on_exit="never") as guard:
            kept = []
            for _ in range(20):
                kept.append(torch.ones(10))
                leakguard.step()
            gone = [weakref.ref(tensor) for tensor in kept]
            report = guard.report()
            assert report.status == "leak"
            kept.clear()
            assert all(ref() is None for ref in gone)
            assert report.findings

    def test_the_values_of_a_finished_loop_are_not_kept_by_the_report(self) -> None:
        gone = []

        def loop() -> None:
            kept = []
            for _ in range(20):
                kept.append(torch.ones(10))
                leakguard.step()
            gone.extend(weakref.ref(tensor) for tensor in kept)

        with leakguard.watch(on_exit="never") as guard:
            loop()
            assert guard.report().status == "leak"
            assert all(ref() is None for ref in gone)

    def test_no_collection_on_the_happy_path(self) -> None:
        collections: list[str] = []

        def count(phase: str, info: dict[str, int]) -> None:
            collections.append(phase)

        gc.collect()
        gc.disable()
        gc.callbacks.append(count)
        try:
            with leakguard.watch(on_exit="never") as guard:
                train(nn.Linear(4, 4), 30)
                assert guard.report().status == "clean"
        finally:
            gc.callbacks.remove(count)
            gc.enable()
        assert collections == []


class TestModelsStayWhatTheyAre:
    def test_pickled_while_watched(self) -> None:
        model = nn.Linear(4, 4)
        with leakguard.watch(model, on_exit="never"):
            assert hooks_of(model) > 0
            twin = pickle.loads(pickle.dumps(model))
            file = io.BytesIO()
            torch.save(model, file)
        assert b"leakguard" not in file.getvalue()
        assert torch.equal(twin(torch.ones(1, 4)), model(torch.ones(1, 4)))

    def test_a_copy_is_not_followed(self) -> None:
        model = nn.Linear(4, 4)
        with leakguard.watch(model, on_exit="never") as guard, torch.no_grad():
            twin = copy.deepcopy(model)
            for _ in range(3):
                model(torch.ones(1, 4))
                twin(torch.ones(1, 4))
            assert guard.report().steps.count == 3

    def test_deep_copies_are_what_they_are(self) -> None:
        state = {
            "weights": torch.randn(5, 3),
            "view": torch.arange(10)[2:6],
            "none": torch.empty(0),
            "bits": torch.ones(2) > 0,
        }
        plain = copy.deepcopy(state)
        with leakguard.watch(on_exit="never"):
            before = core.counts("cpu")[1]
            watched = copy.deepcopy(state)
            assert core.counts("cpu")[1] - before >= 5 * 3 * 4 + 10 * 8 + 2
        for name, value in state.items():
            assert torch.equal(watched[name], value)
            assert watched[name].data_ptr() != value.data_ptr() or value.numel() == 0
            assert watched[name].untyped_storage().nbytes() == plain[name].untyped_storage().nbytes()
            watched[name].resize_(100).zero_()

    def test_compiled_without_a_break(self) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        with leakguard.watch(model, on_exit="never") as guard:
            compiled = torch.compile(model, backend="eager", fullgraph=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(14):
                optimizer.zero_grad()
                compiled(torch.ones(2, 4)).sum().backward()
                optimizer.step()
            report = guard.report()
        torch._dynamo.reset()
        assert (report.status, report.steps.count, report.lost.failures) == ("clean", 14, 0)

    def test_exported_and_traced(self) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        with leakguard.watch(model, on_exit="never"):
            exported = torch.export.export(model, (torch.ones(2, 4),))
            traced = torch.jit.trace(model, torch.ones(2, 4))
        assert torch.equal(exported.module()(torch.ones(2, 4)), traced(torch.ones(2, 4)))


class TestMisuse:
    def test_an_unknown_detail(self) -> None:
        with pytest.raises(ValueError, match="detail is 'everything'"):
            leakguard.watch(detail="everything")  # type: ignore[arg-type]

    def test_an_unknown_time_to_report(self) -> None:
        with pytest.raises(ValueError, match="on_exit is True"):
            leakguard.watch(on_exit=True)  # type: ignore[arg-type]

    @pytest.mark.parametrize("thing", ["model", [nn.Linear(2, 2)], nn.Linear, nn.Linear(2, 2).parameters()])
    def test_what_is_no_module(self, thing: Any) -> None:
        before = traces()
        with pytest.raises(TypeError, match=r"takes torch.nn.Module objects, and got \w+"):
            leakguard.watch(thing)
        assert traces() == before

    def test_what_is_no_module_in_a_second_call(self) -> None:
        with leakguard.watch(on_exit="never") as guard:
            with pytest.raises(TypeError, match="got str"):
                leakguard.watch("model")  # type: ignore[arg-type]
            assert guard.active

    def test_a_package_that_is_none(self) -> None:
        before = traces()
        with pytest.raises(ValueError, match="'no_such_package'"):
            leakguard.watch(user_code=["no_such_package"])
        assert traces() == before

    def test_one_package_need_not_be_in_a_list(self) -> None:
        with leakguard.watch(user_code="pytest", on_exit="never") as guard:
            assert guard.active

    def test_a_file_that_cannot_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(ReportError, match="cannot be written"):
            leakguard.watch(save=tmp_path / "missing" / "report.json")
        assert guard_module.current() is None

    def test_an_unknown_name(self) -> None:
        with pytest.raises(AttributeError, match="no attribute 'wach'"):
            leakguard.wach
