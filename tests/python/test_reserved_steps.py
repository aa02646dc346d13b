"""What was reserved when steps ended, kept where it changed."""

from __future__ import annotations

from sample_tables import TABLE

from leakguard import reserved_steps
from leakguard.reserved_steps import ReservedSteps


def test_a_figure_holds_until_the_next_one() -> None:
    steps = ReservedSteps()
    for step, size in ((3, 10), (4, 10), (7, 20), (9, 5)):
        steps.note(step, "cuda:0", size)
    assert [steps.at(step, "cuda:0") for step in range(2, 11)] == [None, 10, 10, 10, 10, 20, 20, 5, 5]
    assert steps.at(5, "cuda:1") is None


def test_a_table_is_filled_in_by_the_ledgers_steps() -> None:
    steps = ReservedSteps()
    assert steps.filled_in(TABLE, 1) is TABLE
    steps.note(101, "cuda:0", 1)
    steps.note(105, "cuda:0", 2)
    rows = steps.filled_in(TABLE, 100).of("cuda:0")
    assert [row.reserved for row in rows[:6]] == [None, 1, 1, 1, 1, 2]
    assert steps.filled_in(TABLE, 100).of("cpu")[0].reserved is None


def test_a_restless_allocator_takes_bounded_memory(monkeypatch) -> None:
    monkeypatch.setattr(reserved_steps, "MOST_CHANGES", 16)
    steps = ReservedSteps()
    for step in range(10_000):
        steps.note(step, "cuda:0", step)
    (kept, sizes) = steps._changes["cuda:0"]
    assert len(kept) == len(sizes) <= 16
    assert [steps.at(step, "cuda:0") for step in range(9_995, 10_000)] == list(range(9_995, 10_000))
    assert all(steps.at(step, "cuda:0") == step for step in kept)
