"""Sheets as HTML tables, for notebooks: no script, no colour of their own, so that any theme suits them."""

from __future__ import annotations

from html import escape

from leakguard.render.layout import Sheeted, sheets_of
from leakguard.render.sheet import Sheet
from leakguard.render.text import working_folder

__all__ = ["to_html"]

TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:0 0 .8em 0"
CAPTION = "text-align:left;font-weight:bold;white-space:nowrap;padding:.2em 0"
NUMBER, WORDS = "text-align:right;white-space:nowrap;padding:.1em .8em", "text-align:left;padding:.1em .8em"


def to_html(value: Sheeted, *, folder: str | None = None) -> str:
    """The value as a piece of HTML."""
    tables = "\n".join(map(_table, sheets_of(value, folder or working_folder())))
    return f'<div class="leakguard">\n{tables}\n</div>'


def _table(sheet: Sheet) -> str:
    note = f' <span style="font-weight:normal;opacity:.7">{escape(sheet.note)}</span>' if sheet.note else ""
    lines = [f'<table style="{TABLE}"><caption style="{CAPTION}">{escape(sheet.title)}{note}</caption>']
    if sheet.rows:
        lines.append(f"<thead>{_row(sheet, sheet.columns, 'th')}</thead><tbody>")
        lines += [_row(sheet, row, "td") for row in sheet.rows]
        lines.append("</tbody>")
    return "\n".join([*lines, "</table>"])


def _row(sheet: Sheet, cells: tuple[str, ...], tag: str) -> str:
    worded = len(cells) - 1 if sheet.words_last else 0
    return (
        "<tr>"
        + "".join(
            f'<{tag} style="{WORDS if number == worded else NUMBER}">{escape(cell)}</{tag}>'
            for number, cell in enumerate(cells)
        )
        + "</tr>"
    )
