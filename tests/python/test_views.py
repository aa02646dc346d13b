"""Every view of the same values, compared whole with the files in `golden`. LEAKGUARD_UPDATE_GOLDEN=1 writes them
anew; read them before they are committed."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from sample_reports import HOSTILE_NAME, PROJECT
from sample_tables import TABLES
from test_text import compare

from leakguard.records import from_plain
from leakguard.render.layout import Sheeted, sheets_of
from leakguard.render.sheet_html import to_html
from leakguard.render.sheet_text import to_text

RENDERERS: dict[str, Callable[[Sheeted], str]] = {
    "80": lambda value: to_text(value, width=80, folder=PROJECT),
    "40": lambda value: to_text(value, width=40, folder=PROJECT),
    "ascii": lambda value: to_text(value, width=120, folder=PROJECT, encoding="ascii"),
    "html": lambda value: to_html(value, folder=PROJECT),
    "json": lambda value: json.dumps(value.to_dict(), indent=1),
}


@pytest.mark.parametrize("view", RENDERERS)
@pytest.mark.parametrize("name", TABLES)
def test_whole_output(name: str, view: str) -> None:
    compare(f"view_{name}_{view}", RENDERERS[view](TABLES[name]))


@pytest.mark.parametrize("name", TABLES)
def test_terminal_and_notebook_say_the_same(name: str) -> None:
    markup = to_html(TABLES[name], folder=PROJECT)
    shown = [html.unescape(cell) for cell in re.findall(r"<t[dh] [^>]*>(.*?)</t[dh]>", markup, re.DOTALL)]
    sheets = sheets_of(TABLES[name], PROJECT)
    assert shown == [
        cell for sheet in sheets for line in (sheet.columns, *sheet.rows) if sheet.rows for cell in line
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 300])
@pytest.mark.parametrize("name", TABLES)
def test_no_line_is_wider_than_the_page_nor_ends_in_space(name: str, width: int) -> None:
    for line in to_text(TABLES[name], width=width, folder=PROJECT).split("\n"):
        assert cell_len(line) <= min(width, 120)
        assert line == line.rstrip()


@pytest.mark.parametrize("name", TABLES)
def test_saved_and_loaded_it_is_the_same_value(name: str) -> None:
    value = TABLES[name]
    assert from_plain(type(value), json.loads(json.dumps(value.to_dict()))) == value


def test_no_name_becomes_markup() -> None:
    markup = to_html(TABLES["diff hostile"], folder=PROJECT)
    assert "<b>&amp;" not in markup
    assert "&lt;b&gt;&amp;amp;" in markup
    assert HOSTILE_NAME not in markup


def test_thinning_keeps_the_sums_and_the_newest_steps() -> None:
    table = TABLES["steps"]
    thin = table.thinned(10)
    for column in ("consumed", "survivors", "steps"):
        for device in ("cuda:0", "cpu"):
            assert sum(getattr(row, column) for row in thin.of(device)) == sum(
                getattr(row, column) for row in table.of(device)
            )
    rows = thin.of("cuda:0")
    assert [row.last_step for row in rows[-5:]] == [36, 37, 38, 39, 40]
    assert len(rows) == 10
    assert (rows[0].first_step, rows[0].trough, rows[0].peak) == (1, 21 * 2**20, 67 * 2**20)
    assert all(a.last_step + 1 == b.first_step for a, b in zip(rows, rows[1:]))
