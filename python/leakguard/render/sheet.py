"""Sheets: a value laid out once, as titled columns of finished words, for every view to draw as it can.

Whatever a terminal, a notebook or a page shows of a table comes from the same sheets, so that views never disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

from leakguard.render.wording import short_path, shorten, visible, words
from leakguard.report import Place
from leakguard.units import format_bytes
from leakguard.wording import at_line

__all__ = ["Sheet", "category_words", "changed_bytes", "changed_count", "place_words"]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table. Numbers stand to the right in their columns, words to the left; the words of the last column may
    wrap. `note` says what the figures are, or that there are none."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    words_last: bool = False  # the last column holds words, else the first does
    note: str = ""
    spare: tuple[str, ...] = ()  # columns that a narrow page leaves out, the first ones first


def changed_bytes(size: float | None) -> str:
    """A difference: `+1.50 MiB`, `-12 B`, `0 B`; a dash where it is not known."""
    if size is None:
        return "-"
    return f"+{format_bytes(size)}" if size > 0 else format_bytes(size)


def changed_count(count: int) -> str:
    """A difference of counts: `+3`, `-1`, `0`."""
    return f"{count:+d}" if count else "0"


def category_words(category: str) -> str:
    """`optimizer state`."""
    return words(category.replace("_", " "))


def place_words(place: Place, folder: str | None) -> str:
    """`train.py:41 in Net.forward   F.relu(self.fc1(x))   module encoder.fc1`."""
    if place.file is None:
        where = f"an unknown line, {words(place.op)}" if place.op else "an unknown line"
    else:
        where = short_path(place.file, folder)
        if place.line is not None:
            where = at_line(where, place.line)
        if place.function:
            where = f"{where} in {words(place.function)}"
    parts = [where]
    if place.expression:
        parts.append(shorten(visible(place.expression), 120))
    if place.module:
        parts.append(f"module {words(place.module)}")
    if place.phase not in ("other", ""):
        parts.append(f"in {words(place.phase)}")
    return "   ".join(parts)
