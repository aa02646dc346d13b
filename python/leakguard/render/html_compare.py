"""What differs between two recordings, for a page: verdicts, findings, steps, live bytes."""

from __future__ import annotations

from html import escape

from leakguard.recording import Recording
from leakguard.render.html_sheets import sheets_markup
from leakguard.render.report_diff_sheets import report_diff_sheets
from leakguard.render.text import count_steps
from leakguard.render.wording import visible, words
from leakguard.report_diff import ReportDiff

__all__ = ["comparison"]


def comparison(before: Recording, after: Recording, diff: ReportDiff, folder: str | None) -> str:
    """Two verdicts beside each other, then the tables of what differs."""
    sheets = report_diff_sheets(diff, folder)
    cards = _card("before", before) + _card("after", after)
    return f'<div class="pair">{cards}</div>\n{sheets_markup(sheets)}'


def _card(name: str, recording: Recording) -> str:
    report = recording.report
    run = f'<p class="dim">{escape(visible(recording.command))}</p>' if recording.command else ""
    return (
        f'<article class="card"><p class="dim">{name}</p>'
        f'<p><span class="badge" data-status="{report.status}">{report.status.upper()}</span></p>'
        f"<p>{escape(words(report.why))}</p>{run}"
        f'<p class="dim">{escape(count_steps(report.steps))}, torch {escape(words(report.torch) or "not seen")}</p>'
        "</article>"
    )
