"""Which parts of a program make it leak: trials with some of them off, until the fewest that leak are left.

Only the search and its result are here. What a trial is, a process or a loop in this one, is the caller's. Parts that
leak only together are found together (delta debugging), parts that leak each for itself one after the other. A trial
that decides nothing is evidence of nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from leakguard.records import from_plain, to_plain

__all__ = ["METHODS", "Bisection", "Method", "Outcome", "Run", "Trial", "Watcher", "search"]

Method = Literal["halves", "each"]
Outcome = Literal["leak", "clean", "undecided"]
Status = Literal["found", "outside", "no-leak", "no-components", "undecided"]

METHODS: tuple[Method, ...] = ("halves", "each")


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One run with some parts off. `why` is the report's reason, or what kept the trial from deciding anything; `next`
    what the report says to do; `asked` the parts that the program asked for."""

    off: tuple[str, ...]
    outcome: Outcome
    bytes_per_step: float = 0.0
    steps: int = 0
    why: str = ""
    next: str = ""
    asked: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Bisection:
    """What a bisect has found.

    `culprits` are the fewest parts that leak without any other: one name, or a pair that leaks only together; several
    entries leak each for itself. With status `undecided` the culprits that are sure stand there, and `suspects` are the
    parts that could not be told apart. `fresh` tells whether each trial was a process of its own.
    """

    subject: str
    status: Status
    components: tuple[str, ...] = ()
    culprits: tuple[tuple[str, ...], ...] = ()
    suspects: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()
    method: Method = "halves"
    fresh: bool = True

    def trial(self, off: Collection[str]) -> Trial | None:
        """The trial with exactly these parts off."""
        return next((trial for trial in self.trials if set(trial.off) == set(off)), None)

    def alone(self, parts: Collection[str]) -> Trial | None:
        """The trial with only these parts on."""
        return self.trial(set(self.components) - set(parts))

    def to_dict(self) -> dict[str, Any]:
        """The result in plain dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bisection:
        """The result that `to_dict` described. Raises RecordError when `data` is none."""
        return from_plain(cls, data)

    def __str__(self) -> str:
        from leakguard.render.bisection_text import to_text

        return to_text(self, encoding=getattr(sys.stdout, "encoding", None))


Run = Callable[[frozenset[str]], Trial]
"""Makes one trial with these parts off."""


class Watcher:
    """Is told how a search goes; this one does nothing with it."""

    def begins(self, off: frozenset[str], suspects: int, components: int) -> None:
        """A trial begins; so many parts of all may still be the culprit. Before the first trial none is known."""

    def ended(self, trial: Trial, components: Sequence[str]) -> None:
        """It has ended; `components` are those known by now."""


def search(
    run: Run,
    subject: str,
    components: Sequence[str] | None = None,
    *,
    method: Method = "halves",
    fresh: bool = True,
    watcher: Watcher | None = None,
) -> Bisection:
    """Runs trials until the culprits are known, or nothing more can be found out. None for `components`: those that the
    program asks for in the first trial, in which all are on."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}: " + " or ".join(map(repr, METHODS)))
    trials = _Trials(run, watcher or Watcher(), components)
    status, culprits, suspects = _search(trials, method)
    return Bisection(
        subject=subject,
        status=status,
        components=trials.components,
        culprits=tuple(map(trials.in_order, culprits)),
        suspects=trials.in_order(suspects),
        trials=tuple(trials.made),
        method=method,
        fresh=fresh,
    )


Parts = frozenset[str]


class _Trials:
    """The trials so far, by what was on: none is made twice."""

    def __init__(self, run: Run, watcher: Watcher, components: Sequence[str] | None) -> None:
        self._run = run
        self._watcher = watcher
        self._learns = components is None
        self._outcomes: dict[Parts, Outcome] = {}
        self.components = tuple(dict.fromkeys(components or ()))
        self.made: list[Trial] = []
        self.suspects = len(self.components)

    def first(self) -> Trial:
        trial = self._make(frozenset())
        if self._learns:
            self.components = tuple(dict.fromkeys(trial.asked))
            self.suspects = len(self.components)
        self._keep(trial, frozenset(self.components))
        return trial

    def with_only(self, on: Parts) -> Outcome:
        if on not in self._outcomes:
            self._keep(self._make(frozenset(self.components) - on), on)
        return self._outcomes[on]

    def known(self, on: Parts) -> Outcome | None:
        return self._outcomes.get(on)

    def in_order(self, parts: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self.components if name in parts)

    def _make(self, off: Parts) -> Trial:
        self._watcher.begins(off, self.suspects, len(self.components))
        return self._run(off)

    def _keep(self, trial: Trial, on: Parts) -> None:
        self._outcomes[on] = trial.outcome
        self.made.append(trial)
        self._watcher.ended(trial, self.components)


def _search(trials: _Trials, method: Method) -> tuple[Status, list[Parts], Parts]:
    none: Parts = frozenset()
    first = trials.first().outcome
    if first != "leak":
        return ("no-leak" if first == "clean" else "undecided"), [], none
    if not trials.components:
        return "no-components", [], none
    if trials.with_only(none) == "leak":
        return "outside", [], none
    culprits: list[Parts] = []
    left = frozenset(trials.components)
    while trials.with_only(left) == "leak":
        fewest = _fewest(trials, left, method)
        if not _is_sure(trials, fewest):
            return "undecided", culprits, fewest
        culprits.append(fewest)
        left -= fewest
        if not left:
            break
    sure = trials.known(left) == "clean"
    return ("found" if sure else "undecided"), culprits, (none if sure else left)


def _is_sure(trials: _Trials, parts: Parts) -> bool:
    """Whether it is known to be clean without any one of them."""
    everything = frozenset(trials.components)
    return all(
        trials.known(everything - {one}) == "clean" or trials.with_only(parts - {one}) == "clean"
        for one in trials.in_order(parts)
    )


def _fewest(trials: _Trials, on: Parts, method: Method) -> Parts:
    """As few of these parts, which leak together, as leak still."""
    if method == "each":
        needed = frozenset(one for one in trials.in_order(on) if trials.with_only(on - {one}) == "clean")
        if needed and trials.with_only(needed) == "leak":
            return needed
        return _one_by_one(trials, on)
    return _by_halves(trials, on)


def _one_by_one(trials: _Trials, on: Parts) -> Parts:
    for one in trials.in_order(on):
        if trials.with_only(on - {one}) == "leak":
            on -= {one}
            trials.suspects = len(on)
    return on


def _by_halves(trials: _Trials, on: Parts) -> Parts:
    """Delta debugging: a piece of the parts that leaks alone, else all but a piece, else smaller pieces."""
    count = 2
    while len(on) > 1:
        trials.suspects = len(on)
        pieces = list(_pieces(trials.in_order(on), count))
        alone = next((piece for piece in pieces if trials.with_only(piece) == "leak"), None)
        if alone is not None:
            on, count = alone, 2
            continue
        without = next((on - piece for piece in pieces if trials.with_only(on - piece) == "leak"), None)
        if without is not None:
            on, count = without, max(count - 1, 2)
        elif count >= len(on):
            break
        else:
            count = min(2 * count, len(on))
    trials.suspects = len(on)
    return on


def _pieces(parts: Sequence[str], count: int) -> Iterator[Parts]:
    count = min(count, len(parts))
    for number in range(count):
        yield frozenset(parts[len(parts) * number // count : len(parts) * (number + 1) // count])
