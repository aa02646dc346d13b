"""Times of backward passes and optimizers' steps in the step table."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.optim import optimizer as optimizers  # noqa: E402

import leakguard  # noqa: E402
from leakguard.phase_times import PhaseTimes  # noqa: E402
from leakguard.step_table import StepRow  # noqa: E402


def rows_of(steps: int, *, checkpointed: bool = False, update: bool = True) -> tuple[StepRow, ...]:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters())
    with leakguard.watch(model, on_exit="never") as guard:
        for _ in range(steps):
            batch = torch.rand(16, 64, requires_grad=checkpointed)
            if checkpointed:
                result = torch.utils.checkpoint.checkpoint(model, batch, use_reentrant=True)
            else:
                result = model(batch)
            result.square().mean().backward()
            if update:
                optimizer.step()
                optimizer.zero_grad()
        return guard.table().of("cpu")


@pytest.mark.parametrize("steps", [12, 200])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_parts_of_the_time_of_a_step(steps: int, checkpointed: bool) -> None:
    rows = rows_of(steps, checkpointed=checkpointed)
    assert len(rows) > 8
    for row in rows[1:]:
        assert row.seconds is not None
        assert row.backward_seconds is not None and row.backward_seconds > 0
        assert row.optimizer_seconds is not None and row.optimizer_seconds > 0
        assert row.backward_seconds + row.optimizer_seconds <= row.seconds


def test_without_an_optimizer_there_is_its_time_no_more() -> None:
    rows = rows_of(12, update=False)
    assert all(row.backward_seconds for row in rows[1:])
    assert not any(row.optimizer_seconds for row in rows)


def test_columns_only_where_times_are_known() -> None:
    with leakguard.watch(on_exit="never") as guard:
        for _ in range(8):
            torch.ones(99)
            leakguard.step()
        assert "backward" not in guard.table()._repr_html_()


def test_hooks_are_taken_away() -> None:
    before = dict(optimizers._global_optimizer_pre_hooks)
    rows_of(2)
    assert dict(optimizers._global_optimizer_pre_hooks) == before


def test_ends_that_no_row_needs_are_forgotten() -> None:
    kept = {0, 500, 1023, 1900}
    times = PhaseTimes(lambda: kept)
    for step in range(2000):
        times.backward += 0.5
        times.optimizer += 0.25
        times.step_ended(step)
    assert times.between(0, 500) == (250.0, 125.0)
    assert times.between(500, 1900) == (700.0, 350.0)
    assert times.between(499, 500) is None
    assert times.between(1998, 1999) == (0.5, 0.25)
