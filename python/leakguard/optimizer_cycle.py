"""Which optimizer's step ends a training step, in loops with one optimizer and with several."""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass
from types import FrameType

__all__ = ["OptimizerCycle"]

PATIENCE = 16
"""How many optimizer steps one that has stepped once is waited for."""


@dataclass(slots=True)
class _Stepper:
    """One optimizer, or the optimizers that one line makes anew each time."""

    optimizer: weakref.ref[object]
    line: tuple[str, int]
    last: int
    period: int | None = None
    repeated: bool = False  # the same optimizer has stepped twice: it is one of a kind


class OptimizerCycle:
    """Says for each optimizer step whether a training step is over.

    With several optimizers (GAN, actor and critic) the training step is the period of the one that steps
    least often lately. An optimizer that no longer steps is forgotten. A loop that makes a new optimizer each
    time counts as one.
    """

    def __init__(self) -> None:
        self._count = 0
        self._steppers: list[_Stepper] = []
        self._slowest: _Stepper | None = None
        self._known: dict[int, weakref.ref[object]] = {}

    def ends_step(self, optimizer: object) -> bool:
        """Call after each step of any optimizer."""
        self._count += 1
        if self._slowest is not None and len(self._steppers) == 1 and self._slowest.optimizer() is optimizer:
            # Nearly every loop, and soon told: the caches have no room for much Python after a training step.
            self._slowest.repeated = True
            self._slowest.period = 1
            self._slowest.last = self._count
            return True
        stepper = self._find(optimizer)
        if stepper.last < self._count:
            stepper.period = self._count - stepper.last
            stepper.last = self._count
        self._steppers = [other for other in self._steppers if self._is_current(other)]
        self._slowest = self._pick()
        return stepper is self._slowest

    def _find(self, optimizer: object) -> _Stepper:
        for stepper in self._steppers:
            if stepper.optimizer() is optimizer:
                stepper.repeated = True
                return stepper
        line = _calling_line()
        if not self._was_seen(optimizer):
            for stepper in self._steppers:
                if stepper.line == line and not stepper.repeated:
                    stepper.optimizer = weakref.ref(optimizer)
                    return stepper
        stepper = _Stepper(weakref.ref(optimizer), line, self._count)
        self._steppers.append(stepper)
        return stepper

    def _was_seen(self, optimizer: object) -> bool:
        known = self._known.get(id(optimizer))
        if known is not None and known() is optimizer:
            return True
        if len(self._known) > 256:  # the dead ones of a loop that makes ever new optimizers
            self._known = {key: ref for key, ref in self._known.items() if ref() is not None}
        self._known[id(optimizer)] = weakref.ref(optimizer)
        return False

    def _is_current(self, stepper: _Stepper) -> bool:
        return self._count - stepper.last <= (2 * stepper.period if stepper.period else PATIENCE)

    def _pick(self) -> _Stepper | None:
        slowest = self._slowest if self._slowest in self._steppers else None
        for stepper in self._steppers:
            if slowest is None or _rarity(stepper) > _rarity(slowest):
                slowest = stepper
        return slowest


def _rarity(stepper: _Stepper) -> float:
    return float("inf") if stepper.period is None else stepper.period


def _calling_line() -> tuple[str, int]:
    """The line that called optimizer.step(), outside torch."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("torch", "leakguard"):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0
