"""A recording as one page that needs no other file and no network: the verdict, the steps, the findings, what is alive.

Words come from the same functions as in the terminal; pictures are drawn by the page's own script after the words
are on the screen, and stand as tables too.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib import resources
from string import Template

from leakguard.recording import Recording
from leakguard.recording_diff import compare_recordings
from leakguard.render.html_compare import comparison
from leakguard.render.html_data import chart_data, script_json
from leakguard.render.html_findings import findings_block, verdict_block
from leakguard.render.html_paper import HtmlPaper
from leakguard.render.html_sheets import sheets_markup
from leakguard.render.html_source import diff_without_source, without_source
from leakguard.render.memory_sheets import memory_sheets
from leakguard.render.step_sheets import growth_sheet, table_sheets
from leakguard.render.text import (
    counted_findings,
    verdict_of,
    working_folder,
    write_advice,
    write_devices,
    write_footer,
)
from leakguard.render.wording import words

__all__ = ["to_html"]

SCRIPTS = ("page.js", "timeline.js", "icicle.js", "sites.js", "start.js")
UNDRAWN = '<p class="dim">The picture needs JavaScript; the tables below say the same.</p>'


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the page with a heading and a name for links; left out when it is empty."""

    name: str
    title: str
    body: str


def to_html(
    recording: Recording, *, before: Recording | None = None, source: bool = True, folder: str | None = None
) -> str:
    """The page. With `before` it also shows what differs from that recording, which is taken to be the earlier one.
    Without `source` it has no line and no expression of the program's text, no folders and no command.

    Paths inside `folder`, by default the working folder, are shown relative to it.
    """
    folder = folder or working_folder()
    diff = None if before is None else compare_recordings(before, recording)
    if not source:
        if before is not None and diff is not None:
            diff = diff_without_source(diff, before, recording)
            before = without_source(before)
        recording = without_source(recording)
    changes = comparison(before, recording, diff, folder) if before is not None and diff is not None else ""
    report = recording.report
    sections = [section for section in _sections(recording, changes, folder) if section.body]
    style, script = _asset("page.css"), "\n".join(map(_asset, SCRIPTS))
    head, _, _ = verdict_of(report, counted_findings(report))
    return Template(_asset("page.html")).substitute(
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'",
        title=escape(f"{report.status.upper()}: {head}"),
        style=style,
        run=_run(recording),
        links="".join(f'<a href="#{one.name}">{one.title}</a>' for one in sections),
        verdict=verdict_block(recording),
        sections="\n".join(map(_section, sections)),
        footer=_written(lambda paper: write_footer(paper, report)),
        data=script_json(chart_data(recording, before, folder)),
        script=script,
    )


def _sections(recording: Recording, changes: str, folder: str | None) -> list[_Section]:
    report = recording.report
    return [
        _Section("changes", "What differs", changes),
        _Section("steps", "Step by step", _steps(recording)),
        _Section(
            "findings",
            "Findings",
            findings_block(recording, folder),
        ),
        _Section("growth", "What has grown", _growth(recording, folder)),
        _Section("alive", "What is alive", _alive(recording, folder)),
        _Section("advice", "Advice", _written(lambda paper: write_advice(paper, report.advice))),
        _Section("devices", "Devices", _written(lambda paper: write_devices(paper, report.devices))),
    ]


def _section(section: _Section) -> str:
    return (
        f'<section id="{section.name}" aria-labelledby="{section.name}-title">'
        f'<h2 id="{section.name}-title">{section.title}</h2>\n{section.body}\n</section>'
    )


def _run(recording: Recording) -> str:
    parts = [f"<code>{escape(words(recording.command))}</code>"] if recording.command else []
    if recording.began is not None:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(recording.began))
        parts.append(f"<time>{began}</time>")
    return " ".join(parts)


def _steps(recording: Recording) -> str:
    if recording.table is None or not recording.table.rows:
        return ""
    tables = sheets_markup(table_sheets(recording.table))
    return (
        f'<div class="picture" id="timeline">{UNDRAWN}</div>\n'
        f"<details><summary>The steps as a table</summary>{tables}</details>"
    )


def _growth(recording: Recording, folder: str | None) -> str:
    if recording.growth is None or not recording.growth.sites:
        return ""
    return sheets_markup([growth_sheet(recording.growth, folder)])


def _alive(recording: Recording, folder: str | None) -> str:
    if recording.snapshot is None or not recording.snapshot.groups:
        return ""
    tables = sheets_markup(memory_sheets(recording.snapshot, folder))
    return (
        f'<div class="picture" id="icicle">{UNDRAWN}</div>\n<div id="sites"></div>\n'
        f"<details><summary>Live memory as tables, with the allocator's figures</summary>{tables}</details>"
    )


def _written(write: Callable[[HtmlPaper], None]) -> str:
    paper = HtmlPaper()
    write(paper)
    return paper.html()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _asset(name: str) -> str:
    return (resources.files("leakguard.render") / "assets" / name).read_text(encoding="utf-8")
