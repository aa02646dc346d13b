"""A page of labelled lines: text wraps under itself, beside its label, within the width.

label      text that is too long for one line goes on here,
           under its own beginning
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

NARROWEST, WIDEST = 40, 120
GAP = "   "


@dataclass(frozen=True)
class Glyphs:
    """The characters of the tree; every one is one column wide."""

    first: str = "┬"
    middle: str = "├"
    last: str = "╰"
    only: str = "─"
    bar: str = "│"
    rule: str = "─"


ASCII = Glyphs(first="+", middle="|", last="`", only="-", bar="|", rule="-")


@dataclass(frozen=True)
class Row:
    """One reference of a tree: what it is, and what it leads to."""

    left: Text
    right: Text


class Page:
    """Lines as they are added; every one is at most `width` columns wide."""

    def __init__(self, width: int, glyphs: Glyphs) -> None:
        self.width = max(NARROWEST, min(width, WIDEST))
        self.glyphs = glyphs
        self.lines: list[Text] = []
        self._measure = Console(file=StringIO(), width=self.width)

    def blank(self) -> None:
        """An empty line, unless the page is empty or has one already."""
        if self.lines and self.lines[-1].plain:
            self.lines.append(Text())

    def labelled(self, label: Text, text: Text, indent: int) -> None:
        """`text` beside `label`, wrapped under itself at `indent`."""
        self._hang(_padded(label, indent), Text(" " * indent), text)

    def flow(self, label: Text, parts: Sequence[Text], indent: int) -> None:
        """The parts beside `label`, broken between parts where the line is full."""
        line = Text()
        lines = [line]
        for part in parts:
            gap = GAP if line.plain else ""
            if line.plain and indent + line.cell_len + len(gap) + part.cell_len > self.width:
                line, gap = Text(), ""
                lines.append(line)
            line.append(gap).append_text(part)
        for number, one in enumerate(lines):
            self.labelled(label if number == 0 else Text(), one, indent)

    def tree(self, label: Text, rows: Sequence[Row], indent: int) -> None:
        """One row a line beside `label`; the right halves stand under each other where there is room."""
        room = self.width - indent - 2
        fits = [row.left.cell_len for row in rows if row.left.cell_len <= room * 3 // 5]
        column = max(fits, default=0)
        for number, row in enumerate(rows):
            last = number == len(rows) - 1
            glyph = self._glyph(number, last)
            head = _padded(label if number == 0 else Text(), indent).append(glyph, "dim").append(" ")
            bar = Text(" " * indent).append(" " if last else self.glyphs.bar, "dim").append(" ")
            if not row.right.plain:
                self._hang(head, bar.copy().append("  "), row.left)
            elif row.left.cell_len <= column:
                self._hang(
                    head.append_text(_padded(row.left, column)).append(GAP),
                    _padded(bar, indent + 2 + column + 3),
                    row.right,
                )
            else:
                self._hang(head, bar.copy().append("  "), row.left)
                self._hang(bar.copy().append("  "), bar.copy().append("  "), row.right)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns under their names: the first to the left, the others, which are numbers, to the right. A
        table that is too wide is turned: one line for each value."""
        widths = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
        if sum(widths) + len(GAP) * (len(widths) - 1) > self.width:
            for row in rows:
                parts = [Text(f"{name} {value}") for name, value in zip(header[1:], row[1:], strict=True)]
                self.flow(Text(row[0]), parts, widths[0] + len(GAP))
            return
        for number, row in enumerate([header, *rows]):
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
            self.lines.append(Text(GAP.join(cells).rstrip(), "dim" if number == 0 else ""))

    def _glyph(self, number: int, last: bool) -> str:
        if number == 0:
            return self.glyphs.only if last else self.glyphs.first
        return self.glyphs.last if last else self.glyphs.middle

    def _hang(self, head: Text, next_head: Text, text: Text) -> None:
        room = max(self.width - max(head.cell_len, next_head.cell_len), 10)
        wrapped = text.wrap(self._measure, room, overflow="fold") if text.plain else [Text()]
        for number, part in enumerate(wrapped):
            line = (head if number == 0 else next_head).copy().append_text(part)
            line.rstrip()
            self.lines.append(line)


def _padded(text: Text, width: int) -> Text:
    padded = text.copy()
    padded.append(" " * max(width - padded.cell_len, 0))
    return padded
