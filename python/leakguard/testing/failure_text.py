"""The text of a failure: the verdict, then the leak trace; as short as it can be, longer when asked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from leakguard.render.leak_trace import DIM, INDENT, LeakTrace
from leakguard.render.page import Glyphs, Page
from leakguard.render.text import working_folder, write_verdict
from leakguard.render.wording import Names, words
from leakguard.report import Finding, Report
from leakguard.units import format_bytes

__all__ = ["failure_text", "headline"]

LINES = 25
"""What a failure takes without -v."""

WIDTH = 100
SHOWN = {0: 1, 1: 5}
"""Findings shown in full, by how often -v was given; all from twice on."""


def failure_text(report: Report, found: str, verbosity: int = 0, *, width: int = WIDTH) -> str:
    """`report` has the findings that count; `found` says how they were found."""
    folder = working_folder()
    full = verbosity >= 2
    page = Page(width, Glyphs())
    shown = report.findings if full else report.findings[: SHOWN[max(verbosity, 0)]]
    write_verdict(page, report, list(report.findings))
    for number, finding in enumerate(shown, 1):
        page.blank()
        if number > 1:
            page.labelled(
                Text(f"{number} of {len(report.findings)}"), Text(words(finding.title), "bold"), INDENT
            )
            page.labelled(Text("why", DIM), Text(words(finding.why)), INDENT)
        LeakTrace(page, finding, folder).write()
    rest = _others(report.findings[len(shown) :], folder)
    tail = [*rest, f"{'found':<{INDENT}}{found}"]
    lines = [line.plain for line in page.lines]
    room = LINES - len(tail) if verbosity <= 0 else len(lines)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"{'':<{INDENT}}... {len(lines) - room + 1} more lines with -vv"]
    return "\n".join([*lines, *tail])


def headline(finding: Finding) -> str:
    """One finding in a line: `train.py:41: cpu grows 512 B a step, ...`."""
    place = finding.allocated_at
    return f"{Names(finding, working_folder()).place(place.file, place.line)}: {words(finding.title)}"


def _others(findings: Sequence[Finding], folder: str | None) -> list[str]:
    if not findings:
        return []
    first = findings[0]
    place = Names(first, folder).place(first.allocated_at.file, first.allocated_at.line)
    more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
    return [f"{'also':<{INDENT}}{place} ({format_bytes(first.bytes)}){more}: all with -vv"]
