"""The call site of a block is the user's own line, expression and function, however the code came to be."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import linecache
import site
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from birth_places import born, marked_lines, watching  # noqa: E402

HERE = marked_lines(__file__)


@pytest.fixture
def watched() -> Iterator[None]:
    with watching():
        yield


def expect(tensor: torch.Tensor, mark: str, expression: str, function: str, phase: str = "other") -> None:
    place = born(tensor).place
    assert (place.file, place.line) == (__file__, HERE[mark]), place
    assert place.expression == expression
    assert place.function == function
    assert place.phase == phase
    assert place.via is None


@pytest.mark.usefixtures("watched")
class TestForms:
    """One form of Python code each."""

    def test_plain_call(self) -> None:
        tensor = torch.zeros(7)  # @plain
        expect(tensor, "plain", "torch.zeros(7)", "TestForms.test_plain_call")

    def test_the_very_expression_of_several_on_a_line(self) -> None:
        a, b = torch.ones(5), torch.zeros(6)  # @two
        expect(a, "two", "torch.ones(5)", "TestForms.test_the_very_expression_of_several_on_a_line")
        expect(b, "two", "torch.zeros(6)", "TestForms.test_the_very_expression_of_several_on_a_line")

    def test_operators(self) -> None:
        a, b = torch.ones(5), torch.ones(5)
        tensor = a * 2 + b  # @operators
        expect(tensor, "operators", "a * 2 + b", "TestForms.test_operators")

    def test_an_expression_over_several_lines(self) -> None:
        # fmt: off
        tensor = (  # @before_several
            torch.full((3, 4),
                       2.0)
        )
        # fmt: on
        place = born(tensor).place
        assert place.line == HERE["before_several"] + 1
        assert place.expression == "torch.full((3, 4), 2.0)"

    def test_comprehension(self) -> None:
        tensors = [torch.zeros(n) for n in (3, 4)]  # @comprehension
        inlined = sys.version_info >= (3, 12)  # PEP 709
        function = "TestForms.test_comprehension" + ("" if inlined else ".<locals>.<listcomp>")
        for tensor in tensors:
            expect(tensor, "comprehension", "torch.zeros(n)", function)

    def test_generator(self) -> None:
        def numbers() -> Iterator[torch.Tensor]:
            yield torch.zeros(3)  # @generator

        expect(
            next(numbers()),
            "generator",
            "torch.zeros(3)",
            "TestForms.test_generator.<locals>.numbers",
        )

    def test_coroutine(self) -> None:
        async def work() -> torch.Tensor:
            await asyncio.sleep(0)
            return torch.zeros(3)  # @coroutine

        expect(
            asyncio.run(work()),
            "coroutine",
            "torch.zeros(3)",
            "TestForms.test_coroutine.<locals>.work",
        )

    def test_lambda(self) -> None:
        make = lambda: torch.zeros(3)  # noqa: E731  # @lambda
        expect(make(), "lambda", "torch.zeros(3)", "TestForms.test_lambda.<locals>.<lambda>")

    def test_called_by_c_code(self) -> None:
        tensors = list(map(torch.zeros, (3, 4)))  # @map
        expect(tensors[0], "map", "list(map(torch.zeros, (3, 4)))", "TestForms.test_called_by_c_code")
        tensor = functools.partial(torch.zeros, 3)()  # @partial
        expect(tensor, "partial", "functools.partial(torch.zeros, 3)()", "TestForms.test_called_by_c_code")

    def test_decorated_by_the_user(self) -> None:
        def twice(function):
            @functools.wraps(function)
            def wrapper() -> torch.Tensor:
                return function()

            return wrapper

        @twice
        def make() -> torch.Tensor:
            return torch.zeros(3)  # @decorated

        expect(make(), "decorated", "torch.zeros(3)", "TestForms.test_decorated_by_the_user.<locals>.make")

    def test_decorated_by_torch(self) -> None:
        @torch.no_grad()
        def make() -> torch.Tensor:
            return torch.zeros(3) + 1  # @no_grad

        expect(make(), "no_grad", "torch.zeros(3) + 1", "TestForms.test_decorated_by_torch.<locals>.make")

    def test_in_a_class_body(self) -> None:
        class Holder:
            table = torch.zeros(3)  # @class_body

        expect(
            Holder.table,
            "class_body",
            "torch.zeros(3)",
            "TestForms.test_in_a_class_body.<locals>.Holder",
        )

    def test_property_and_operator_of_the_users(self) -> None:
        class Grid:
            @property
            def cells(self) -> torch.Tensor:
                return torch.zeros(3)  # @property

            def __add__(self, other: int) -> torch.Tensor:
                return torch.full((3,), other)  # @dunder

        expect(
            Grid().cells,
            "property",
            "torch.zeros(3)",
            "TestForms.test_property_and_operator_of_the_users.<locals>.Grid.cells",
        )
        expect(
            Grid() + 1,
            "dunder",
            "torch.full((3,), other)",
            "TestForms.test_property_and_operator_of_the_users.<locals>.Grid.__add__",
        )

    def test_torch_function_override(self) -> None:
        class Named(torch.Tensor):
            pass

        tensor = torch.zeros(3).as_subclass(Named)
        result = tensor + 1  # @subclass
        expect(result, "subclass", "tensor + 1", "TestForms.test_torch_function_override")

    def test_a_deep_stack_of_the_users(self) -> None:
        def dig(depth: int) -> torch.Tensor:
            if depth:
                return dig(depth - 1)
            return torch.zeros(3)  # @deep

        expect(
            dig(400),
            "deep",
            "torch.zeros(3)",
            "TestForms.test_a_deep_stack_of_the_users.<locals>.dig",
        )


@pytest.mark.usefixtures("watched")
class TestGeneratedCode:
    """Code that has no file of its own."""

    def test_executed_text_shows_the_line_that_ran_it(self) -> None:
        namespace: dict[str, object] = {"torch": torch}
        exec("\ndef make():\n    return torch.zeros(3)\n\nx = make()", namespace)  # @exec
        place = born(namespace["x"]).place
        assert (place.file, place.line) == (__file__, HERE["exec"])
        assert place.via == "<string>:3 in make"

    def test_dataclass_with_a_default_of_the_users(self) -> None:
        @dataclasses.dataclass
        class State:
            table: torch.Tensor = dataclasses.field(default_factory=lambda: torch.zeros(3))  # @factory

        expect(
            State().table,
            "factory",
            "torch.zeros(3)",
            "TestGeneratedCode.test_dataclass_with_a_default_of_the_users.<locals>.State.<lambda>",
        )

    def test_dataclass_with_a_default_of_torchs(self) -> None:
        @dataclasses.dataclass
        class State:
            table: torch.Tensor = dataclasses.field(default_factory=functools.partial(torch.zeros, 3))

        state = State()  # @dataclass
        place = born(state.table).place
        assert (place.file, place.line) == (__file__, HERE["dataclass"])
        assert place.expression == "State()"
        assert place.via is not None
        assert place.via.startswith("<string>:")
        assert "__init__" in place.via

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("<ipython-input-3-0a1b2c3d4e5f>", "In [3]"),
            (
                "{folder}/ipykernel_77/123456.py",
                "{folder}/ipykernel_77/123456.py",
            ),  # no kernel is there to ask
        ],
    )
    def test_notebook_cell(self, name: str, shown: str, tmp_path: Path) -> None:
        name = name.format(folder=tmp_path)
        source = "import torch\n\ndef forward(n):\n    return torch.zeros(n) * 2\n\nkept = forward(3)\n"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        namespace: dict[str, object] = {}
        exec(compile(source, name, "exec"), namespace)
        place = born(namespace["kept"]).place
        assert (place.file, place.line) == (shown.format(folder=tmp_path), 4)
        assert place.expression == "torch.zeros(n) * 2"
        assert place.function == "forward"
        assert place.via is None

    def test_a_cell_that_is_run_again_has_its_own_lines(self) -> None:
        for number, blank in enumerate(["", "\n", "\n\n", ""]):
            name = f"<ipython-input-{number}-aaaa>"
            namespace: dict[str, object] = {"torch": torch}
            exec(compile(f"def f():\n{blank}    return torch.zeros(3)\nx = f()", name, "exec"), namespace)
            place = born(namespace["x"]).place
            assert (place.file, place.line) == (f"In [{number}]", 2 + len(blank))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_code_shows_a_line_of_the_function(backend: str) -> None:
    torch._dynamo.reset()

    def body(x: torch.Tensor) -> torch.Tensor:  # @body
        y = x.sin()
        return y.cos()  # @body_end

    compiled = torch.compile(body, backend=backend)
    compiled(torch.ones(9))
    with watching():
        tensor = compiled(torch.ones(9))  # @compiled_call
        place = born(tensor).place
    torch._dynamo.reset()
    assert place.file == __file__
    assert HERE["body"] <= place.line <= HERE["body_end"] or place.line == HERE["compiled_call"]
    assert place.function.startswith("test_compiled_code_shows_a_line_of_the_function")
    assert place.expression


TRAINER = """
    import torch

    class Trainer:
        def __init__(self):
            self.history = []

        def fit(self, model, batches):
            for batch in batches:
                self.history.append(self._loss(model, batch))  # @fit

        def _loss(self, model, batch):
            return model(batch).square().mean()  # @loss
"""


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package of a trainer, in a folder of installed packages."""
    packages = tmp_path / "site-packages"
    (packages / "fancytrainer").mkdir(parents=True)
    (packages / "fancytrainer" / "__init__.py").write_text("")
    (packages / "fancytrainer" / "loop.py").write_text(textwrap.dedent(TRAINER))
    known = site.getsitepackages()
    monkeypatch.setattr(site, "getsitepackages", lambda: [*known, str(packages)])
    monkeypatch.syspath_prepend(str(packages))
    import fancytrainer.loop

    yield fancytrainer.loop
    del sys.modules["fancytrainer.loop"], sys.modules["fancytrainer"]


def run_trainer(trainer: ModuleType, model: torch.nn.Module) -> torch.Tensor:
    loop = trainer.Trainer()
    loop.fit(model, [torch.ones(2, 4)])  # @run_trainer
    return loop.history[0]


class TestTrainer:
    """A training loop that lives in an installed package."""

    def test_the_users_line_and_the_way_through_the_library(self, trainer: ModuleType) -> None:
        lines = marked_lines(trainer.__file__)
        with watching():
            place = born(run_trainer(trainer, torch.nn.Linear(4, 3))).place
        assert (place.file, place.line) == (__file__, HERE["run_trainer"])
        assert place.function == "run_trainer"
        assert place.expression == "loop.fit(model, [torch.ones(2, 4)])"
        assert place.via == f"{trainer.__file__}:{lines['loss']} in Trainer._loss"

    def test_a_package_that_counts_as_the_users(self, trainer: ModuleType) -> None:
        lines = marked_lines(trainer.__file__)
        with watching(user_code=("fancytrainer",)):
            place = born(run_trainer(trainer, torch.nn.Linear(4, 3))).place
        assert (place.file, place.line) == (trainer.__file__, lines["loss"])
        assert place.function == "Trainer._loss"
        assert place.expression == "model(batch).square().mean()"
        assert place.via is None

    def test_the_users_model_below_the_library(self, trainer: ModuleType) -> None:
        kept = []

        class Model(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                kept.append(x + 1)  # @model_below
                return x

        with watching():
            run_trainer(trainer, Model())
            place = born(kept[0]).place
        assert (place.file, place.line) == (__file__, HERE["model_below"])
        assert place.expression == "x + 1"
        assert place.phase == "forward"
        assert place.via is None


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        self.head = torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.encoder(x)  # @net_encoder
        return self.head(hidden), hidden * 2  # @net_head


class TestModules:
    def test_paths_of_the_modules_that_ran(self) -> None:
        model = Net()
        with watching(model):
            kept: dict[str, torch.Tensor] = {}
            model.encoder[0].register_forward_hook(lambda _, __, y: kept.update(inner=y))
            logits, doubled = model(torch.ones(3, 4))
            inner, head, own = born(kept["inner"]), born(logits), born(doubled)
        assert (inner.module, inner.place.line) == ("encoder.0", HERE["net_encoder"])
        assert (head.module, head.place.line) == ("head", HERE["net_head"])
        assert head.place.expression == "self.head(hidden)"
        assert (own.module, own.place.expression) == ("Net", "hidden * 2")
        for birth in (inner, head, own):
            assert birth.place.phase == "forward"
            assert birth.place.function == "Net.forward"

    def test_modules_added_later_are_known_from_the_next_step_on(self) -> None:
        import leakguard

        model = Net()
        with watching(model):
            model.head = torch.nn.Linear(8, 5)
            first, _ = model(torch.ones(3, 4))
            assert born(first).module == ""
            leakguard.step()
            second, _ = model(torch.ones(3, 4))
            assert born(second).module == "head"

    def test_a_module_that_died_leaves_no_name(self) -> None:
        model = Net()
        with watching(model):
            for _ in range(50):
                model.head = torch.nn.Linear(8, 2)  # may lie where the dead one lay
                logits, _ = model(torch.ones(3, 4))
                assert born(logits).module in ("", "head")
            lone = torch.nn.Linear(4, 4)
            assert born(lone(torch.ones(3, 4))).module == ""

    def test_outside_of_modules_there_is_none(self) -> None:
        model = Net()
        with watching(model):
            tensor = torch.zeros(3)
            assert born(tensor).module == ""
            assert born(tensor).place.phase == "other"


class TestOptimizer:
    def test_state_is_born_in_the_optimizers_phase_at_the_users_line(self) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with watching(model):
            logits, _ = model(torch.ones(3, 4))
            logits.sum().backward()
            optimizer.step()  # @optimizer_step
            for state in optimizer.state.values():
                for name in ("exp_avg", "exp_avg_sq"):
                    place = born(state[name]).place
                    assert (place.file, place.line) == (__file__, HERE["optimizer_step"])
                    assert place.expression == "optimizer.step()"
                    assert place.phase == "optimizer"
                    assert place.module is None

    def test_a_closure_runs_in_the_phases_of_its_own(self) -> None:
        model = Net()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
        kept = []
        with watching(model):

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                logits, _ = model(torch.ones(3, 4))
                loss = logits.square().sum()  # @closure_loss
                kept.append((logits, loss))
                loss.backward()
                return loss

            optimizer.step(closure)
            logits, loss = kept[0]
            assert born(logits).place.phase == "forward"
            assert born(logits).place.line == HERE["net_head"]
            assert born(loss).place.line == HERE["closure_loss"]


def test_a_thread_without_frames_is_an_honest_unknown() -> None:
    counting = pytest.importorskip("_counting", reason="the test-only module _counting is not built")
    from leakguard._native import core
    from leakguard.sites import site_of

    with watching():
        before = {row[0] for row in core.blocks()}
        held = counting.allocate_in_new_thread(4321)
        (row,) = [row for row in core.blocks() if row[0] not in before and row[1] == 4321]
        place = site_of(row[4]).place
        assert (place.file, place.line, place.function, place.expression) == (None, None, None, None)
        assert (place.via, place.module, place.phase) == (None, None, "other")
        del held
        assert row[0] not in {row[0] for row in core.blocks()}
