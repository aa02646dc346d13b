"""Markup as paper: what is written for a terminal, written for a browser, word for word."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from rich.text import Text

from leakguard.render.paper import Row

__all__ = ["HtmlPaper", "markup"]

CLASSES = {"bold": "strong", "dim": "dim", "cyan": "code", "yellow": "warn", "red": "hot"}


class HtmlPaper:
    """Collects rows of a label and words; `html()` is the markup so far."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._rows: list[str] = []

    def blank(self) -> None:
        """The next row begins a new group."""
        if self._rows:
            self._pieces.append(f'<div class="rows">{"".join(self._rows)}</div>')
            self._rows = []

    def labelled(self, label: Text, text: Text, indent: int) -> None:
        """A row of one sentence."""
        self._row(label, markup(text))

    def flow(self, label: Text, parts: Sequence[Text], indent: int) -> None:
        """A row of parts."""
        self._row(label, " ".join(f'<span class="part">{markup(part)}</span>' for part in parts))

    def tree(self, label: Text, rows: Sequence[Row], indent: int) -> None:
        """A row with a list, one item a reference."""
        items = "".join(
            f'<li><span class="link">{markup(row.left)}</span>'
            + "".join(f' <span class="leads">{markup(part)}</span>' for part in row.right)
            + "</li>"
            for row in rows
        )
        self._row(label, f'<ol class="chain">{items}</ol>')

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table of its own."""
        self.blank()
        head = f'<th scope="col" class="words">{escape(header[0])}</th>' + "".join(
            f'<th scope="col">{escape(name)}</th>' for name in header[1:]
        )
        body = "".join(
            f'<tr><th scope="row">{escape(row[0])}</th>'
            + "".join(f"<td>{escape(cell) or '–'}</td>" for cell in row[1:])
            + "</tr>"
            for row in rows
        )
        self._pieces.append(
            f'<div class="scroll"><table class="figures"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def html(self) -> str:
        """All that has been written."""
        self.blank()
        return "\n".join(self._pieces)

    def _row(self, label: Text, words: str) -> None:
        self._rows.append(
            f'<div class="row"><span class="label">{markup(label)}</span><div class="words">{words}</div></div>'
        )


def markup(text: Text) -> str:
    """The text with its styles as classes."""
    pieces = []
    plain = text.plain
    edges = sorted({0, len(plain), *(edge for span in text.spans for edge in (span.start, span.end))})
    for start, end in pairwise(edges):
        styles = [
            str(text.style),
            *(str(span.style) for span in text.spans if span.start <= start < span.end),
        ]
        names = {CLASSES[word] for style in styles for word in style.split() if word in CLASSES}
        part = escape(plain[start:end])
        if not part:
            continue
        pieces.append(f'<span class="{" ".join(sorted(names))}">{part}</span>' if names else part)
    return "".join(pieces)
