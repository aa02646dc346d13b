"""How many runs of a test body it takes, and what they prove."""

from __future__ import annotations

import pytest

from leakguard.testing.repeats import Kept, Plan, Verdict

A, B = 1, 2


def runs(*kept: dict[int, int]) -> list[Kept]:
    """Of each run, the bytes that are alive by group."""
    return [{group: (1, size) for group, size in run.items()} for run in kept]


def verdict_after(plan: Plan, *kept: dict[int, int]) -> tuple[int, Verdict]:
    """How many of the runs are taken, and the verdict then."""
    for done in range(1, len(kept) + 1):
        verdict = plan.judge(runs(*kept[:done]))
        if verdict.decided:
            return done, verdict
    return len(kept), plan.judge(runs(*kept))


def test_the_first_run_warms_up_and_the_second_decides() -> None:
    assert verdict_after(Plan.of(0, None, None), {A: 9}, {}) == (2, Verdict(True, frozenset(), range(1, 2)))


def test_unmarked_tests_are_decided_by_a_first_run_that_leaves_nothing() -> None:
    plan = Plan.of(0, None, None, first_decides=True)
    assert verdict_after(plan, {}) == (1, Verdict(decided=True))
    assert verdict_after(plan, {A: 9}, {})[0] == 2


def test_a_leak_takes_three_runs_to_warm_up_and_eight_to_prove() -> None:
    done, verdict = verdict_after(Plan.of(0, None, None), *[{A: 4, B: 4}] * 20)
    assert done == 11
    assert verdict == Verdict(True, frozenset({A, B}), range(3, 11))


def test_one_run_that_left_nothing_acquits() -> None:
    assert verdict_after(Plan.of(0, None, None), *[{A: 4}] * 5, {}) == (
        6,
        Verdict(True, frozenset(), range(1, 6)),
    )


def test_what_was_replaced_is_alive_of_the_last_run_only() -> None:
    plan = Plan.of(0, None, None)
    assert not plan.judge(runs({}, {A: 4})).decided
    assert plan.judge(runs({}, {}, {A: 4})).decided


def test_call_sites_that_take_turns_do_not_add_up() -> None:
    assert verdict_after(Plan.of(0, None, None), {A: 4}, {A: 4}, {B: 4})[1].suspects == frozenset()


@pytest.mark.parametrize(("limit", "suspects"), [(3, {A, B}), (4, {B}), (5, set())])
def test_the_limit_is_what_a_call_site_may_keep_of_a_run(limit: int, suspects: set[int]) -> None:
    assert verdict_after(Plan.of(limit, None, None), *[{A: 4, B: 5}] * 11)[1].suspects == suspects


def test_one_repeat_compares_before_and_after() -> None:
    assert verdict_after(Plan.of(0, None, 1), {A: 4}) == (1, Verdict(True, frozenset({A}), range(1)))
    assert verdict_after(Plan.of(0, None, 1), {}) == (1, Verdict(True, frozenset(), range(1)))


@pytest.mark.parametrize(("warmup", "repeats", "total"), [(0, 4, 4), (2, 3, 5), (5, 8, 13), (3, 1, 4)])
def test_what_the_user_says_of_runs_is_so(warmup: int, repeats: int, total: int) -> None:
    done, verdict = verdict_after(Plan.of(0, warmup, repeats), *[{A: 4}] * 20)
    assert done == total
    assert verdict.runs == range(warmup, total)


def test_nothing_is_decided_while_the_user_warms_up() -> None:
    assert verdict_after(Plan.of(0, 4, 8), *[{}] * 20)[0] == 5
