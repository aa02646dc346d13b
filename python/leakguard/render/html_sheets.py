"""Sheets as tables of a page: classes for the style sheet, nothing inline."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from leakguard.render.sheet import Sheet

__all__ = ["sheets_markup"]

PARTED = "   "
"""What stands between the parts of a cell, in a terminal too."""


def sheets_markup(sheets: Iterable[Sheet]) -> str:
    """One table a sheet; what has no rows is a sentence."""
    return "\n".join(map(_table, sheets))


def _table(sheet: Sheet) -> str:
    note = f' <span class="dim">{escape(sheet.note)}</span>' if sheet.note else ""
    title = f"{escape(sheet.title)}{note}"
    if not sheet.rows:
        return f'<p class="caption">{title}</p>'
    worded = len(sheet.columns) - 1 if sheet.words_last else 0
    head = "".join(
        f'<th scope="col"{_class(number == worded)}>{escape(name)}</th>'
        for number, name in enumerate(sheet.columns)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{_class(number == worded)}>{_parts(cell)}</td>" for number, cell in enumerate(row))
        + "</tr>"
        for row in sheet.rows
    )
    return (
        f'<div class="scroll" tabindex="0"><table class="figures"><caption>{title}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _parts(cell: str) -> str:
    """A cell of several parts: the first is what it is about."""
    first, *rest = map(escape, cell.split(PARTED))
    return first + "".join(f' <span class="aside">{part}</span>' for part in rest)


def _class(is_words: bool) -> str:
    return ' class="words"' if is_words else ""
