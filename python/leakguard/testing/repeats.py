"""How often a test body is run, and what its runs prove. Only numbers here: no torch, no pytest.

A call site leaks when each of the last runs left something of it behind that is still alive: what is
replaced, or goes when a ring has turned once, does not add up; what is made once does not come again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["MOST_MEASURED", "MOST_WARMUP", "Kept", "Plan", "Verdict"]

MOST_WARMUP = 3
MOST_MEASURED = 8

Kept = Mapping[int, tuple[int, int]]
"""What one run left behind and is still alive: blocks and bytes by group of the ledger."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`decided` without suspects is a clean test; `suspects` are the groups that grew in every run."""

    decided: bool
    suspects: frozenset[int] = frozenset()
    runs: range = range(0)  # those looked at, from 0


@dataclass(frozen=True, slots=True)
class Plan:
    """`least_warmup` runs never count; of at most `total` the last `measured` must all have grown.

    With `first_decides`, a first run that leaves nothing behind is enough.
    """

    limit: int
    least_warmup: int
    total: int
    measured: int
    first_decides: bool = False

    @classmethod
    def of(cls, limit: int, warmup: int | None, repeats: int | None, *, first_decides: bool = False) -> Plan:
        """The plan for a limit in bytes and what the user has said of runs."""
        measured = MOST_MEASURED if repeats is None else repeats
        if warmup is not None:
            return cls(limit, warmup, warmup + measured, measured, first_decides and warmup == 0)
        if measured == 1:  # before and after
            return cls(limit, 0, 1, 1, first_decides)
        return cls(limit, 1, MOST_WARMUP + measured, measured, first_decides)

    def judge(self, kept: Sequence[Kept]) -> Verdict:
        """What the runs so far prove; one entry for each run."""
        done = len(kept)
        over = [{group for group, (_, size) in run.items() if size > self.limit} for run in kept]
        if done == 1 and self.first_decides and not over[0]:
            return Verdict(decided=True)
        first = max(self.least_warmup, done - self.measured)
        if done <= self.least_warmup:
            return Verdict(decided=False)
        suspects = frozenset(set.intersection(*over[first:]))
        return Verdict(not suspects or done >= self.total, suspects, range(first, done))
