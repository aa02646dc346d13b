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

from leakguard.render.paper import Row

NARROWEST, WIDEST = 40, 120
LEAST_COLUMN = 24
GAP = "   "


@dataclass(frozen=True)
class Glyphs:
    """The characters of trees and rules; every one is one column wide."""

    first: str = "┬"
    middle: str = "├"
    last: str = "╰"
    only: str = "─"
    bar: str = "│"
    rule: str = "─"


ASCII = Glyphs(first="+", middle="|", last="`", only="-", bar="|", rule="-")


class Page:
    """Lines as they are added; every one is at most `width` columns wide."""

    def __init__(self, width: int, glyphs: Glyphs) -> None:
        self.width = max(NARROWEST, min(width, WIDEST))
        self.glyphs = glyphs
        self.lines: list[Text] = []
        self._console = Console(file=StringIO(), width=self.width)

    def blank(self) -> None:
        """An empty line, unless the page is empty or ends with one already."""
        if self.lines and self.lines[-1].plain:
            self.lines.append(Text())

    def rule(self, title: str) -> None:
        """A line across the page with a title near its beginning."""
        edge = self.glyphs.rule
        line = Text(f"{edge * 2} {title} ", "dim")
        line.append(edge * max(self.width - line.cell_len, 2), "dim")
        self._hang(Text(), Text(), line)

    def labelled(self, label: Text, text: Text, indent: int) -> None:
        """`text` beside `label`, wrapped under itself at `indent`."""
        self._hang(_padded(label, indent), Text(" " * indent), text)

    def flow(self, label: Text, parts: Sequence[Text], indent: int) -> None:
        """The parts beside `label`, broken between parts where a line is full."""
        for number, line in enumerate(_packed(parts, self.width - indent)):
            self.labelled(label if number == 0 else Text(), line, indent)

    def tree(self, label: Text, rows: Sequence[Row], indent: int) -> None:
        """One row a line beside `label`; what the rows lead to stands in one column where there is room."""
        roomy = min((self.width - indent) * 3 // 5, self.width - indent - 2 - len(GAP) - LEAST_COLUMN)
        column = max((row.left.cell_len for row in rows if row.left.cell_len <= roomy), default=0)
        for number, row in enumerate(rows):
            is_last = number == len(rows) - 1
            head = _padded(label if number == 0 else Text(), indent)
            head.append(self._glyph(number, is_last), "dim").append(" ")
            bar = Text(" " * indent).append(" " if is_last else self.glyphs.bar, "dim").append(" ")
            beside = indent + 2 + column + len(GAP)
            right = _packed(row.right, self.width - beside)
            if right and row.left.cell_len <= column:
                self._hang(
                    head.append_text(_padded(row.left, column + len(GAP))), _padded(bar, beside), right[0]
                )
                right = right[1:]
            else:
                self._hang(head, _padded(bar, indent + 4), row.left)
                beside = indent + 4
            for line in right:
                self._hang(_padded(bar, beside), _padded(bar, beside), line)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns under their names: the first to the left, the others, which are numbers, to the right. A
        table that is too wide for the page is turned: each value beside its name, without the empty ones."""
        widths = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
        gap = next(
            (gap for gap in (GAP, GAP[1:]) if sum(widths) + len(gap) * len(rows[0][1:]) <= self.width), None
        )
        if gap is None:
            for row in rows:
                parts = [
                    Text(f"{name} {value}") for name, value in zip(header[1:], row[1:], strict=True) if value
                ]
                self.flow(Text(row[0]), parts, widths[0] + len(GAP))
            return
        for number, row in enumerate([header, *rows]):
            line = _padded(Text(row[0]), widths[0])
            for cell, width in zip(row[1:], widths[1:], strict=True):
                shown = cell or "-"
                line.append(gap).append(" " * (width - cell_len(shown))).append(shown)
            line.stylize("dim" if number == 0 else "")
            self.lines.append(line)

    def _glyph(self, number: int, is_last: bool) -> str:
        if number == 0:
            return self.glyphs.only if is_last else self.glyphs.first
        return self.glyphs.last if is_last else self.glyphs.middle

    def _hang(self, head: Text, next_head: Text, text: Text) -> None:
        room = max(self.width - max(head.cell_len, next_head.cell_len), 10)
        for number, part in enumerate(text.wrap(self._console, room, overflow="fold")):
            line = (head if number == 0 else next_head).copy().append_text(part)
            line.rstrip()
            self.lines.append(line)


def _padded(text: Text, width: int) -> Text:
    return _open(text).append(" " * max(width - text.cell_len, 0))


def _packed(parts: Sequence[Text], room: int) -> list[Text]:
    """The parts on as few lines of `room` columns as they need; one that is longer has a line of its own."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + len(GAP) + part.cell_len <= room:
            lines[-1].append(GAP).append_text(part)
        else:
            lines.append(_open(part))
    return lines


def _open(text: Text) -> Text:
    """A copy to which more can be appended: it has its style as far as it reaches, and no further."""
    return Text().append_text(text)
