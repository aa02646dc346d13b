"""What allocators had reserved at the end of each step, kept where it changed."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import replace

from leakguard.step_table import StepRow, StepTable

__all__ = ["ReservedSteps"]

MOST_CHANGES = 4096
"""Changes of a device that are kept; of the older half every second one goes when there are more."""


class ReservedSteps:
    """Steps are the ledger's."""

    def __init__(self) -> None:
        self._changes: dict[str, tuple[list[int], list[int]]] = {}

    def clear(self) -> None:
        """Nobody has looked yet."""
        self._changes.clear()

    def note(self, step: int, device: str, reserved: int) -> None:
        """`reserved` bytes were the allocator's when `step` ended; steps come in order."""
        steps, sizes = self._changes.setdefault(device, ([], []))
        if sizes and sizes[-1] == reserved:
            return
        steps.append(step)
        sizes.append(reserved)
        if len(steps) > MOST_CHANGES:
            for column in (steps, sizes):
                column[: MOST_CHANGES // 2] = column[: MOST_CHANGES // 2 : 2]

    def at(self, step: int, device: str) -> int | None:
        """What it had when `step` ended; None when nobody has looked by then."""
        steps, sizes = self._changes.get(device, ([], []))
        found = bisect.bisect_right(steps, step)
        return sizes[found - 1] if found else None

    def filled_in(self, table: StepTable, base: int) -> StepTable:
        """The table with these figures; `base` is the ledger's number of its first step."""
        return replace(table, rows=tuple(self.filled(table.rows, base))) if self._changes else table

    def filled(self, rows: Iterable[StepRow], base: int) -> Iterable[StepRow]:
        """The rows with these figures."""
        if not self._changes:
            return rows
        return [replace(row, reserved=self.at(row.last_step + base - 1, row.device)) for row in rows]
