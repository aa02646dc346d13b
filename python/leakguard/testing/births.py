"""What is born between moments, and lives on."""

from __future__ import annotations

from leakguard._native import core
from leakguard.testing.repeats import Kept

__all__ = ["BirthRow"]


class BirthRow:
    """Spans of time in a row; the first begins with the row. Disturbs no watch, and rows may overlap."""

    def __init__(self) -> None:
        self._marks = [core.BirthMark()]

    @property
    def first(self) -> core.BirthMark:
        """The moment the row began."""
        return self._marks[0]

    def next_span(self) -> None:
        """Ends the last span and begins another."""
        self._marks.append(core.BirthMark())

    def is_quiet(self) -> bool:
        """Whether nothing was born in the last span."""
        return self._marks[-1].is_now()

    def kept(self) -> list[Kept]:
        """For each span, what was born in it and is alive now."""
        kept: list[dict[int, tuple[int, int]]] = [{} for _ in self._marks]
        for span, group, blocks, size in core.survivors(self._marks):
            kept[span][group] = (blocks, size)
        return list(kept)
