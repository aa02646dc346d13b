"""Sheets as text: for a terminal of any width, a pipe, a log."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from leakguard.render.layout import Sheeted, sheets_of
from leakguard.render.page import Page
from leakguard.render.sheet import Sheet
from leakguard.render.text import fit_for, glyphs_for, working_folder

__all__ = ["print_value", "text_of", "to_text", "write_sheets"]

GAP = 2
LEAST_WORDS = 24


def to_text(
    value: Sheeted, *, width: int | None = None, folder: str | None = None, encoding: str | None = None
) -> str:
    """The value as plain text, in the width of the terminal, or 80 where there is none."""
    width = width or shutil.get_terminal_size((80, 24)).columns
    return fit_for(encoding, text_of(value, width, folder, encoding).plain)


def print_value(value: Sheeted, file: TextIO, *, folder: str | None = None) -> None:
    """Prints the value to `file`, in colour where that is a terminal."""
    encoding = getattr(file, "encoding", None)
    console = Console(file=file, highlight=False, soft_wrap=True)
    whole = text_of(value, console.width, folder, encoding)
    fit = fit_for(encoding, whole.plain)
    console.print(whole if fit == whole.plain else Text(fit))


def text_of(value: Sheeted, width: int, folder: str | None, encoding: str | None) -> Text:
    """The value's lines with their styles."""
    page = Page(width, glyphs_for(encoding))
    write_sheets(page, sheets_of(value, folder or working_folder()))
    return Text("\n").join(page.lines)


def write_sheets(page: Page, sheets: Sequence[Sheet]) -> None:
    """One sheet below the other."""
    for sheet in sheets:
        page.blank()
        title = Text(sheet.title, "bold")
        if sheet.note:
            title.append(f"   {sheet.note}", "not bold dim")
        page.labelled(Text(), title, 0)
        if not sheet.rows:
            continue
        if sheet.words_last:
            _write_words_last(page, sheet)
        else:
            page.table(*_fitting(page, sheet))


def _fitting(page: Page, sheet: Sheet) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows without the spare ones that the page has no room for."""
    lines = [sheet.columns, *sheet.rows]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    kept = list(range(len(sheet.columns)))
    for name in sheet.spare:
        if sum(widths[number] + GAP for number in kept) - GAP <= page.width:
            break
        kept.remove(sheet.columns.index(name))
    columns, *rows = [tuple(line[number] for number in kept) for line in lines]
    return columns, rows


def _write_words_last(page: Page, sheet: Sheet) -> None:
    """Numbers in their columns, then words that wrap under themselves; in a narrow page below the numbers."""
    lines = [sheet.columns, *sheet.rows]
    widths = [max(cell_len(line[number]) for line in lines) for number in range(len(sheet.columns) - 1)]
    indent = sum(widths) + GAP * len(widths)
    beside = page.width - indent >= LEAST_WORDS
    for number, line in enumerate(lines):
        style = "dim" if number == 0 else ""
        cells = [" " * (width - cell_len(cell)) + cell for cell, width in zip(line, widths, strict=False)]
        label = Text((" " * GAP).join(cells), style)
        if beside:
            page.labelled(label, Text(line[-1], style), indent)
        else:
            page.labelled(Text(), label, 0)
            page.labelled(Text(), Text(line[-1], style), GAP * 2)
