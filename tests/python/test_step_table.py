"""The step table and the comparison of steps, out of a real run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import leakguard  # noqa: E402
from leakguard.guard import Guard  # noqa: E402
from leakguard.step_table import StepDiff  # noqa: E402

KEPT = 4096  # floats: 16 KiB


@pytest.fixture
def guard() -> Iterator[Guard]:
    with leakguard.watch(on_exit="never") as watching:
        yield watching


def train(steps: int) -> list[torch.Tensor]:
    kept = []
    for _ in range(steps):
        passing = torch.ones(8 * KEPT)
        kept.append(torch.ones(KEPT))
        del passing
        leakguard.step()
    return kept


def test_a_row_for_each_step(guard: Guard) -> None:
    kept = train(10)
    table = guard.table()
    rows = table.of("cpu")
    assert [(row.first_step, row.last_step) for row in rows] == [(step, step) for step in range(1, 11)]
    assert table.steps.source == "explicit"
    for row in rows[1:]:
        assert row.consumed == 9 * 4 * KEPT
        assert row.survivors == row.change == 4 * KEPT
        assert row.peak - row.trough == 9 * 4 * KEPT
        assert row.seconds is not None and row.seconds > 0
    del kept[4]
    assert [row.survivors for row in guard.table().of("cpu")][4] == 0


def test_what_an_earlier_watch_has_seen_survives_in_no_row() -> None:
    with leakguard.watch(on_exit="never"):
        kept = train(5)
    with leakguard.watch(on_exit="never") as guard:
        kept += train(2)
        assert [row.survivors for row in guard.table().of("cpu")] == [4 * KEPT, 4 * KEPT]
    assert len(kept) == 7


def test_a_long_run_is_thinned_and_adds_up(guard: Guard) -> None:
    kept = train(400)
    rows = guard.table().of("cpu")
    assert len(rows) < 110
    assert (rows[0].first_step, rows[-1].last_step) == (1, 400)
    assert all(a.last_step + 1 == b.first_step for a, b in zip(rows, rows[1:]))
    # What waits in cycles for the collector is alive as well, a few gradients at most.
    assert sum(row.survivors for row in rows) == pytest.approx(len(kept) * 4 * KEPT, rel=0.01)
    assert sum(row.change or 0 for row in rows[1:]) == pytest.approx(
        (400 - rows[0].last_step) * 4 * KEPT, rel=0.01
    )
    table = guard.table()
    assert len(str(table).splitlines()) < 24 * len({row.device for row in table.rows})


def kept_here(diff: StepDiff) -> list[tuple[int, int, int]]:
    return [
        (site.bytes, site.blocks, site.survivor_bytes)
        for site in diff.sites
        if site.place.expression == "torch.ones(KEPT)"
    ]


def test_a_comparison_names_what_changed(guard: Guard) -> None:
    kept = train(20)
    diff = guard.diff(5, 15)
    assert (diff.from_step, diff.to_step) == (5, 15)
    assert kept_here(diff) == [(10 * 4 * KEPT, 10, 10 * 4 * KEPT)]
    assert kept_here(guard.diff(15, 5)) == [(-10 * 4 * KEPT, -10, 0)]
    kept.clear()
    assert kept_here(guard.diff(5, 15)) == [(10 * 4 * KEPT, 10, 0)]


def test_comparisons_add_up_and_one_with_itself_is_empty(guard: Guard) -> None:
    kept = train(20)
    assert guard.diff(7, 7).sites == ()
    parts = [sum(site.bytes for site in guard.diff(a, b).sites) for a, b in ((3, 9), (9, 18), (3, 18))]
    assert parts[0] + parts[1] == parts[2] == 15 * 4 * KEPT
    assert len(kept) == 20


@pytest.mark.parametrize("steps", [(0, 3), (3, 6), (-1, 2)])
def test_a_step_that_was_not_seen_is_refused(guard: Guard, steps: tuple[int, int]) -> None:
    train(5)
    with pytest.raises(ValueError, match="steps 1 to 5 have ended"):
        guard.diff(*steps)


def test_the_table_outlives_the_guard() -> None:
    with leakguard.watch(on_exit="never") as guard:
        assert guard.table().rows == ()
        kept = train(3)
    assert [row.last_step for row in guard.table().of("cpu")] == [1, 2, 3]
    with pytest.raises(ValueError, match="nobody watches"):
        guard.diff(1, 2)
    assert len(kept) == 3
