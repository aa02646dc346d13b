"""The search of a bisect against programs whose culprits are known, some of whose trials decide nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakguard.bisection import Bisection, Outcome, Trial, search

METHODS = st.sampled_from(["halves", "each"])


class Program:
    """Leaks while any of its culprits is wholly on; decides nothing with one of `broken` off sets."""

    def __init__(self, parts, culprits, broken=frozenset()) -> None:
        self.parts, self.culprits, self.broken = parts, culprits, broken
        self.runs: list[frozenset[str]] = []

    def outcome(self, off: frozenset[str]) -> Outcome:
        if off in self.broken:
            return "undecided"
        return "leak" if any(not culprit & off for culprit in self.culprits) else "clean"

    def __call__(self, off: frozenset[str]) -> Trial:
        self.runs.append(off)
        return Trial(off=tuple(sorted(off)), outcome=self.outcome(off), asked=tuple(self.parts))


@st.composite
def programs(draw, most_culprits: int = 3, breaks: bool = False) -> Program:
    parts = [f"part{number}" for number in range(draw(st.integers(1, 9)))]
    culprit = st.sets(st.sampled_from(parts), min_size=1, max_size=min(3, len(parts))).map(frozenset)
    culprits = draw(st.sets(culprit, min_size=1, max_size=most_culprits))
    subset = st.sets(st.sampled_from(parts), min_size=1).map(frozenset)
    broken = draw(st.sets(subset, max_size=12)) if breaks else set()
    return Program(parts, culprits, frozenset(broken))


def fewest(program: Program) -> set[frozenset[str]]:
    return {one for one in program.culprits if not any(other < one for other in program.culprits)}


@given(programs(most_culprits=1), METHODS)
def test_one_culprit_or_pair_is_named(program: Program, method) -> None:
    result = search(program, "p.py", method=method)
    assert result.status == "found"
    assert [set(parts) for parts in result.culprits] == [set(one) for one in program.culprits]
    assert result.trial(()).outcome == "leak"
    assert result.alone(result.culprits[0]).outcome == "leak"
    assert result.trial(result.culprits[0]).outcome == "clean"


@given(programs(), METHODS)
def test_with_several_culprits_the_rest_is_clean_without_those_named(program: Program, method) -> None:
    result = search(program, "p.py", method=method)
    assert result.status == "found"
    assert {frozenset(parts) for parts in result.culprits} <= fewest(program)
    named = frozenset(itertools.chain.from_iterable(result.culprits))
    assert result.trial(named).outcome == "clean"
    assert len(named) == sum(map(len, result.culprits))


@given(programs(breaks=True), METHODS)
def test_a_trial_that_decides_nothing_never_makes_a_wrong_culprit(program: Program, method) -> None:
    result = search(program, "p.py", method=method)
    assert {frozenset(parts) for parts in result.culprits} <= fewest(program)
    assert result.status in ("found", "undecided")
    if result.status == "found":
        assert not result.suspects
        named = frozenset(itertools.chain.from_iterable(result.culprits))
        assert program.outcome(named) == "clean"
    elif result.suspects:
        assert program.broken & set(program.runs)


@given(programs(breaks=True), METHODS)
def test_no_trial_is_made_twice(program: Program, method) -> None:
    search(program, "p.py", method=method)
    assert len(program.runs) == len(set(program.runs))


def test_halves_need_few_trials() -> None:
    program = Program([f"part{number}" for number in range(64)], {frozenset({"part41"})})
    assert search(program, "p.py").culprits == (("part41",),)
    assert len(program.runs) <= 2 + 2 * 6 + 1


def test_each_takes_every_part_off_once_with_the_rest_on() -> None:
    program = Program(list("abcd"), {frozenset("bd")})
    assert search(program, "p.py", method="each").culprits == (("b", "d"),)
    assert {frozenset(one) for one in "abcd"} <= set(program.runs)


@pytest.mark.parametrize(
    ("culprits", "broken", "status", "says"),
    [
        ([], [], "no-leak", "CLEAN  with every part on there is no leak"),
        ([""], [], "outside", "OUTSIDE  it leaks with all 3 parts off: the culprit is outside of them"),
        (["a"], [""], "undecided", "UNDECIDED  the trial with every part on decided nothing"),
        (["a"], ["abc", "a"], "undecided", "UNDECIDED  narrowed down to a, and no further"),
        (["ab"], [], "found", "FOUND  a and b leak together, 0 B a step, and none of them without the other"),
        (["a", "c"], [], "found", "FOUND  a leaks, 0 B a step; c leaks, 0 B a step"),
        (["a"], ["b"], "found", "FOUND  the culprit is a, 0 B a step"),
    ],
)
def test_what_is_said(culprits, broken, status: str, says: str) -> None:
    program = Program(list("abc"), set(map(frozenset, culprits)), frozenset(map(frozenset, broken)))
    result = search(program, "p.py")
    assert result.status == status
    assert says in str(result)
    assert Bisection.from_dict(result.to_dict()) == result


def test_parts_unknown_at_first_and_parts_never_met_are_told() -> None:
    def run(off: frozenset[str]) -> Trial:
        asked = ("a", "hidden") if "a" in off else ("a",)
        return Trial(off=tuple(off), outcome="clean" if "a" in off else "leak", asked=asked)

    told = str(search(run, "p.py", ["a", "typo"]))
    assert "left on in every trial: hidden" in told
    assert "never asked for: typo" in told
    assert "in this process" not in told
    assert "all trials ran in this process" in str(search(run, "p.py", fresh=False))


def test_without_parts_it_says_how_to_make_some() -> None:
    result = search(lambda off: Trial(off=(), outcome="leak"), "p.py")
    assert result.status == "no-components"
    assert "guard parts of the program with `if leakguard.component" in str(result)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ValueError, match="method is 'thirds': 'halves' or 'each'"):
        search(Program(["a"], set()), "p.py", method="thirds")


def test_a_name_cannot_colour_the_terminal() -> None:
    program = Program(["a\x1b[31m", "b"], {frozenset({"b"})})
    assert "\x1b" not in str(search(program, "p.py"))
