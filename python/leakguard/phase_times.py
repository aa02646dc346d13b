"""How long backward passes and optimizers' steps take, on the host, as they add up over a run.

A device works on after the host has gone on: these are the times in which the loop was held up, which for a loop that
does not wait for its device are launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["PhaseTimes"]

MOST_ENDS = 1024
"""Steps of which the sums are kept before those that no row needs are dropped."""


class PhaseTimes:
    """Seconds so far. `kept` says the steps whose ends the step history keeps."""

    __slots__ = ("_ends", "_kept", "backward", "optimizer")

    def __init__(self, kept: Callable[[], Iterable[int]]) -> None:
        self.backward = 0.0
        self.optimizer = 0.0
        self._kept = kept
        self._ends: dict[int, tuple[float, float]] = {}

    def step_ended(self, step: int) -> None:
        """After each mark."""
        self._ends[step] = (self.backward, self.optimizer)
        if len(self._ends) >= MOST_ENDS:
            kept = set(self._kept())
            self._ends = {step: sums for step, sums in self._ends.items() if step in kept}

    def between(self, before: int, last: int) -> tuple[float, float] | None:
        """Seconds of the backward passes and of the optimizers' steps after the end of step `before`, up to the end of
        step `last`; None where an end is not known."""
        begin, end = self._ends.get(before), self._ends.get(last)
        return None if begin is None or end is None else (end[0] - begin[0], end[1] - begin[1])
