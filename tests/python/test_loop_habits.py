"""What is read off a training loop's source, and what must not be."""

from __future__ import annotations

import linecache
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import leakguard  # noqa: E402
from leakguard.loop_habits import CodeLine, habits_at  # noqa: E402
from leakguard.memory_advice import (  # noqa: E402
    BackwardCalls,
    FirstSteps,
    first_steps_advice,
    habit_advice,
)

LOOP = """
def train(model, loader, optimizer, scaler):
    total = 0
    for step, batch in enumerate(loader):
        loss = model(batch)
        {backward}
        {habit}
        optimizer.step()
"""


def habits(folder: Path, habit: str, backward: str = "loss.backward()", loop: str = LOOP):
    file = folder / "train.py"
    file.write_text(loop.format(habit=habit.replace("\n", "\n        "), backward=backward))
    linecache.checkcache(str(file))
    line = next(number for number, text in enumerate(file.read_text().splitlines(), 1) if "backward(" in text)
    return habits_at(CodeLine(str(file), line))


@pytest.mark.parametrize(
    "habit",
    [
        "print(loss)",
        "print(step, loss.item())",
        "print(f'step {step}: {loss:.3f}')",
        "print('loss', float(loss), flush=True)",
        "with timer():\n    print(loss.detach().cpu())",
        "try:\n    print(loss)\nexcept OSError:\n    pass",
    ],
)
def test_a_print_in_every_step_is_seen(habit: str, tmp_path: Path) -> None:
    found = habits(tmp_path, habit)
    assert found is not None
    assert found.printed is not None
    assert found.printed.text.startswith("print(")
    assert found.loss == "loss"
    assert found.summed is None


@pytest.mark.parametrize(
    "habit",
    [
        "if step % 100 == 0:\n    print(loss)",
        "step % 100 or print(loss)",
        "print(step)",
        "print(loss.shape, loss.device, len(loss))",
        "log = lambda: print(loss)",
        "def show():\n    print(loss)",
        "if step % 100:\n    continue\nprint(loss)",
        "for _ in range(step):\n    print(loss)",
        "other.print(loss)",
    ],
)
def test_a_print_now_and_then_or_of_something_else_is_not(habit: str, tmp_path: Path) -> None:
    found = habits(tmp_path, habit)
    assert found is not None
    assert found.printed is None


@pytest.mark.parametrize(
    "habit",
    ["total += loss", "total = total + loss", "self.total += loss / 4", "total += loss * batch.size(0)"],
)
@pytest.mark.parametrize("backward", ["loss.backward()", "scaler.scale(loss).backward()"])
def test_a_total_of_losses_with_their_graph_is_seen(habit: str, backward: str, tmp_path: Path) -> None:
    found = habits(tmp_path, habit, backward)
    assert found is not None
    assert found.summed is not None
    assert found.total in ("total", "self.total")
    assert found.printed is None


@pytest.mark.parametrize(
    "habit",
    [
        "total += loss.item()",
        "total += loss.detach()",
        "total += float(loss)",
        "total -= loss",
        "total += 1",
        "total = other + loss",
        "loss += penalty",
        "loss = loss.detach()\ntotal += loss",
        "with torch.no_grad():\n    total += loss",
        "if step > 100:\n    total += loss",
        "total += loss\ntotal.backward()",
    ],
)
def test_a_total_of_numbers_or_one_that_is_gone_back_through_is_not(habit: str, tmp_path: Path) -> None:
    found = habits(tmp_path, habit)
    assert found is not None
    assert found.summed is None


@pytest.mark.parametrize(
    ("backward", "loop"),
    [
        ("model(batch).sum().backward()", LOOP),
        ("losses[0].backward()", LOOP),
        ("loss.backward()", "{backward}\n{habit}\n"),
        ("loss.backward()", "for broken in (:\n  {backward}\n  {habit}\n"),
    ],
)
def test_without_a_loop_or_a_name_nothing_is_known(backward: str, loop: str, tmp_path: Path) -> None:
    assert habits(tmp_path, "print(loss)", backward, loop) is None


def test_a_function_that_is_one_step_is_gone_through_in_each(tmp_path: Path) -> None:
    loop = "def step(batch):\n    loss = model(batch)\n    {backward}\n    {habit}\n"
    found = habits(tmp_path, "print(loss)", loop=loop)
    assert found is not None
    assert found.printed is not None


def test_a_print_is_advised_against_on_a_gpu_only_and_a_few_passes_are_no_habit(tmp_path: Path) -> None:
    found = habits(tmp_path, "print(loss)")
    (advice,) = habit_advice(found, BackwardCalls(20, 0), on_gpu=True)
    assert advice.topic == "print"
    assert f"print(loss) ({tmp_path / 'train.py'}:7) reads loss in every step" in advice.text
    assert habit_advice(found, BackwardCalls(20, 0), on_gpu=False) == ()
    assert habit_advice(found, BackwardCalls(7, 0), on_gpu=True) == ()


@pytest.mark.parametrize(
    ("alive", "said"),
    [
        ({("cuda:0", "backward"): 4096}, True),
        (
            {("cuda:0", "backward"): 4096, ("cpu", "backward"): 4096},
            False,
        ),  # which of them the loss is on is not known
        ({("cuda:0", "forward"): 4096}, False),
        (None, False),  # as it is: on the CPU
    ],
)
def test_a_loop_that_prints_its_loss(alive, said: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if alive is not None:
        monkeypatch.setattr("leakguard.training_advice._live_bytes_by_phase", lambda: Counter(alive))
    weight = torch.rand(8, requires_grad=True)
    with leakguard.watch(on_exit="never") as guard:
        for _ in range(14):
            loss = (weight * 2).sum()
            loss.backward()
            print(f"{loss:.3f}")
        report = guard.report()
    assert ("print" in [advice.topic for advice in report.advice]) is said


@pytest.mark.parametrize(("resets", "said"), [(True, True), (False, False)])
def test_a_total_that_is_let_go_of_each_epoch_is_advised_against_and_a_leak_is_a_leak(
    resets: bool, said: bool
) -> None:
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with leakguard.watch(on_exit="never") as guard:
        total = 0
        for step in range(48):
            if step % 4 == 0 and resets:
                total = 0
            loss = model(torch.rand(32, 64)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            total += loss
            optimizer.step()
        report = guard.report()
    assert ("total with its graph" in [advice.topic for advice in report.advice]) is said, str(report)
    assert report.status == ("clean" if resets else "leak")


MIB = 2**20
BORN = FirstSteps("cuda:0", 40 * MIB, 160 * MIB, 160 * MIB, gradients=40 * MIB, optimizer=80 * MIB)


def test_growth_of_the_first_steps_is_explained_with_its_figures() -> None:
    (advice,) = first_steps_advice(BORN)
    for figure in ("40.0 MiB to 160 MiB", "40.0 MiB of gradients", "80.0 MiB of optimizer state"):
        assert figure in advice.text


@pytest.mark.parametrize(
    "change",
    [
        {"after": 50 * MIB, "later": 50 * MIB},  # small
        {"later": 200 * MIB},  # it did not stay there
        {"optimizer": 20 * MIB},  # something else was made too
        {"before": 400 * MIB, "after": 520 * MIB, "later": 520 * MIB},  # nobody takes that for a leak
    ],
)
def test_growth_that_is_not_explained_so_is_not(change: dict[str, int]) -> None:
    from dataclasses import replace

    assert first_steps_advice(replace(BORN, **change)) == ()


@pytest.mark.parametrize(("adam", "kept", "said"), [(True, False, True), (True, True, False)])
def test_first_steps_of_a_loop(adam: bool, kept: bool, said: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(1200, 1200), torch.nn.Linear(1200, 1200))
    optimizer = torch.optim.Adam(model.parameters())
    extra = []
    with leakguard.watch(on_exit="never") as guard:
        for _ in range(14):
            optimizer.zero_grad()
            model(torch.rand(2, 1200)).square().mean().backward()
            optimizer.step()
            if kept:
                extra.append(torch.zeros(2**20))
        report = guard.report()
    assert ("first steps" in [advice.topic for advice in report.advice]) is said, str(report)
