"""The report as text, compared whole with the files in `golden`. LEAKGUARD_UPDATE_GOLDEN=1 writes them anew;
read them before they are committed."""

from __future__ import annotations

import html
import io
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from sample_reports import CLEAN, HISTORY, HOSTILE_NAME, LEAK, PROJECT, REPORTS

from leakguard.render.notebook import report_html
from leakguard.render.page import Glyphs, Page
from leakguard.render.text import print_line, print_report, to_text, write_report
from leakguard.render.wording import short_path, shorten, visible
from leakguard.report import DeviceUsage, Link, Place, Report

GOLDEN = Path(__file__).with_name("golden")


def compare(name: str, text: str) -> None:
    file = GOLDEN / f"{name.replace(' ', '_')}.txt"
    if os.environ.get("LEAKGUARD_UPDATE_GOLDEN") == "1":
        file.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == file.read_text(encoding="utf-8")


class Stream(io.TextIOWrapper):
    """A stream in memory with an encoding, and a terminal if wanted."""

    def __init__(self, encoding: str = "utf-8", *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A terminal of 80 columns that knows colours, whatever the tests run in."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    return monkeypatch


@pytest.mark.parametrize("name", REPORTS)
def test_in_80_columns(name: str) -> None:
    compare(name, to_text(REPORTS[name], width=80, folder=PROJECT))


@pytest.mark.parametrize(("name", "width"), [("leak", 120), ("several", 120), ("leak", 40)])
def test_in_other_widths(name: str, width: int) -> None:
    compare(f"{name}_{width}", to_text(REPORTS[name], width=width, folder=PROJECT))


@pytest.mark.parametrize("name", REPORTS)
def test_a_notebook_shows_the_same_words(name: str) -> None:
    markup = report_html(REPORTS[name], folder=PROJECT)
    tags = re.findall(r"<[^>]*>", markup)
    assert {re.match(r"</?(\w+)", tag)[1] for tag in tags} == {"b", "div", "pre", "span"}
    shown = "".join(html.unescape(re.sub(r"<[^>]*>", "\n", markup)).split())
    assert shown == "".join(to_text(REPORTS[name], width=100, folder=PROJECT).split())


def test_styles_reach_as_far_as_the_words_they_are_for() -> None:
    page = Page(80, Glyphs())
    write_report(page, LEAK, PROJECT)
    compare("leak_styles", "\n".join(line.markup for line in page.lines))


def test_under_a_rule_where_it_has_been_saved() -> None:
    stream = Stream()
    saved = Path(PROJECT) / "out" / "report.json"
    print_report(LEAK, stream, title="leakguard, train.py", saved=[saved], folder=PROJECT)
    compare("printed", stream.text().rstrip("\n"))


def test_a_stream_that_cannot_draw_gets_plain_characters() -> None:
    stream = Stream("ascii")
    print_report(REPORTS["hostile"], stream, title="leakguard, träin.py", folder=PROJECT)
    compare("hostile_ascii", stream.text().rstrip("\n"))


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (
            CLEAN,
            "leakguard: clean, 40 steps (optimizer); peak 71.2 MiB on cuda:0, 1.24 MiB on cpu; saved r.json",
        ),
        (replace(CLEAN, devices=()), "leakguard: clean, 40 steps (optimizer); saved r.json"),
    ],
)
def test_a_clean_run_in_one_line(report: Report, line: str) -> None:
    stream = Stream()
    print_line(report, stream, saved=[Path(PROJECT) / "r.json"], folder=PROJECT)
    assert stream.text() == line + "\n"


@pytest.mark.parametrize("name", REPORTS)
def test_a_terminal_shows_the_same_words_in_colour(name: str) -> None:
    coloured, plain = Stream(terminal=True), Stream()
    print_report(REPORTS[name], coloured, folder=PROJECT)
    print_report(REPORTS[name], plain, folder=PROJECT)
    assert "\x1b[" in coloured.text()
    assert "\x1b[" not in plain.text()
    assert without_colour(coloured.text()) == plain.text()


def without_colour(text: str) -> str:
    return "".join(
        piece.partition("m")[2] if number else piece for number, piece in enumerate(text.split("\x1b["))
    )


def test_a_dumb_terminal_gets_no_escapes(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("TERM", "dumb")
    stream = Stream(terminal=True)
    print_report(LEAK, stream, folder=PROJECT)
    assert "\x1b" not in stream.text()


def test_no_color_gets_no_colour(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("NO_COLOR", "1")
    stream = Stream(terminal=True)
    print_report(LEAK, stream, folder=PROJECT)
    codes = {
        code for piece in stream.text().split("\x1b[")[1:] for code in piece.partition("m")[0].split(";")
    }
    assert codes <= {"0", "1", "2"}  # plain, bold, dim


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [40, 80, 100, 120, 300])
def test_no_line_is_wider_than_the_page_nor_ends_in_space(name: str, width: int) -> None:
    for line in to_text(REPORTS[name], width=width, folder=PROJECT).split("\n"):
        assert cell_len(line) <= min(width, 120)
        assert line == line.rstrip()


@settings(deadline=None)
@given(st.text(), st.integers(40, 120))
def test_no_name_breaks_the_page(name: str, width: int) -> None:
    link = Link(edge=name, name=name, type=name, file=name, line=3)
    hostile = replace(
        HISTORY,
        title=name,
        why=name,
        allocated_at=Place(
            file=name, function=name, expression=name, module=name, op=name, phase=name, via=name
        ),
        root=name,
        retained_by=(link, link, HISTORY.retained_by[1]),
    )
    report = replace(
        LEAK, why=name, next=name, findings=(hostile, hostile), devices=(DeviceUsage(device=name),)
    )
    for line in to_text(report, width=width).split("\n"):
        assert line.isprintable() or set(filter(lambda char: not char.isprintable(), line)) <= set(
            map(chr, SPACES)
        )
        assert cell_len(line) <= width


SPACES = [0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000]


def test_printing_a_report_cannot_fail_for_lack_of_characters(terminal: pytest.MonkeyPatch) -> None:
    terminal.setattr("sys.stdout", Stream("ascii"))
    assert str(REPORTS["hostile"]).isascii()


def test_what_is_unseen_is_shown() -> None:
    shown = visible(HOSTILE_NAME)
    assert shown == r"\x1b[31mred\x07\n[bold]x[/bold]\u202egnp.exe\udc80 :smile: 模型"


def test_long_text_is_cut_in_its_middle() -> None:
    assert shorten("x" * 200) == "x" * 200
    assert shorten("a" * 150 + "b" * 150, 30) == "a" * 20 + "..." + "b" * 7


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/user/project/train.py", "train.py"),
        ("/home/user/project/pkg/train.py", "pkg/train.py"),
        ("/home/user/project2/train.py", "/home/user/project2/train.py"),
        ("/home/user/project/..x/train.py", "..x/train.py"),
        ("/usr/lib/python3/dist-packages/torch/optim/adam.py:3 in step", "torch/optim/adam.py:3 in step"),
        ("<ipython-input-3-abc>", "<ipython-input-3-abc>"),
        ("train.py", "train.py"),
    ],
)
def test_paths_are_seen_from_the_folder(path: str, shown: str) -> None:
    assert short_path(path, PROJECT) == shown


def test_without_a_folder_paths_are_whole() -> None:
    assert short_path("/home/user/train.py", None) == "/home/user/train.py"
