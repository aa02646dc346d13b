"""Values as pieces of HTML for a notebook: no script, and no colour that a light or a dark theme would swallow."""

from __future__ import annotations

from html import escape
from io import StringIO

from rich.console import Console
from rich.style import Style
from rich.text import Text

from leakguard.render.page import Glyphs, Page
from leakguard.render.sheet_html import to_html as sheets_html
from leakguard.render.text import counted_findings, verdict_of, working_folder, write_details
from leakguard.render.wording import words
from leakguard.report import Report
from leakguard.step_table import StepRow, StepTable
from leakguard.units import format_bytes

__all__ = ["curves_html", "report_html", "table_html"]

COLUMNS = 100
ACCENT = {"leak": "#d32f3f", "warning": "#b26a00", "clean": "#2e8b46", "inconclusive": "#7a5ea8"}
"""Each has contrast enough with white letters on it, and as a line on white and on black."""

COLOR = {"red": "#d9414f", "yellow": "#b98300", "cyan": "#0b8fa8"}
BOX = "border-left:4px solid {accent};padding:.1em 0 .1em .9em;margin:.3em 0;line-height:1.45"
BADGE = (
    "background:{accent};color:#fff;font-weight:700;padding:.1em .55em;border-radius:.25em;margin-right:.6em"
)
LINE = "display:flex;margin:.25em 0"
LABEL = "flex:0 0 3.2em;opacity:.65"
PRE = "font-size:12px;line-height:1.35;margin:.7em 0 .2em 0;overflow-x:auto;white-space:pre"
CURVE_WIDTH, CURVE_HEIGHT = 640, 56


def report_html(report: Report, *, folder: str | None = None) -> str:
    """The report: the verdict as a heading, the rest in the words of the terminal."""
    accent = ACCENT[report.status]
    head, why, following = verdict_of(report, counted_findings(report))
    badge = f'<span style="{BADGE.format(accent=accent)}">{report.status.upper()}</span>'
    lines = [f'<div style="margin:.25em 0">{badge}<b>{escape(head)}</b></div>']
    for label, text in (("why", why), ("next", following)):
        if text:
            lines.append(
                f'<div style="{LINE}"><span style="{LABEL}">{label}</span><span>{escape(text)}</span></div>'
            )
    page = Page(COLUMNS, Glyphs())
    write_details(page, report, folder or working_folder())
    console = Console(file=StringIO(), width=COLUMNS)
    details = "\n".join(_spans(line, console) for line in page.lines)
    box = BOX.format(accent=accent)
    return (
        f'<div class="leakguard" style="{box}">\n'
        + "\n".join(lines)
        + f'\n<pre style="{PRE}">{details}</pre>\n</div>'
    )


def table_html(table: StepTable, *, folder: str | None = None) -> str:
    """The step table under a curve a device."""
    return curves_html(table) + sheets_html(table, folder=folder)


def curves_html(table: StepTable) -> str:
    """For each device with two steps and more, what was alive at the end of each step, below its peaks."""
    return "".join(_curve(device, table.of(device)) for device in table.devices if len(table.of(device)) > 1)


def _curve(device: str, rows: tuple[StepRow, ...]) -> str:
    top = max([1, *(row.peak for row in rows)])
    first, last = rows[0].last_step, rows[-1].last_step

    def points(values: list[int]) -> str:
        return " ".join(
            f"{CURVE_WIDTH * (row.last_step - first) / max(last - first, 1):.1f},"
            f"{CURVE_HEIGHT * (1 - value / top) + 1:.1f}"
            for row, value in zip(rows, values, strict=True)
        )

    peaks, ends = points([row.peak for row in rows]), points([row.allocated for row in rows])
    floor = CURVE_HEIGHT + 1
    title = f"{words(device)}: at the end of each step, below its peaks; at most {format_bytes(top)}"
    return (
        f'<svg class="leakguard" width="{CURVE_WIDTH}" height="{CURVE_HEIGHT + 2}" role="img" style="max-width:100%;'
        f'margin:.3em 0 0 0" viewBox="0 0 {CURVE_WIDTH} {CURVE_HEIGHT + 2}"><title>{escape(title)}</title>'
        f'<polygon points="0,{floor} {peaks} {CURVE_WIDTH},{floor}" fill="#3b82c4" fill-opacity=".18"/>'
        f'<polyline points="{ends}" fill="none" stroke="#3b82c4" stroke-width="1.6"/></svg>'
    )


def _spans(line: Text, console: Console) -> str:
    return "".join(
        _span(segment.text, segment.style if isinstance(segment.style, Style) else Style())
        for segment in line.render(console)
    )


def _span(text: str, style: Style) -> str:
    rules = []
    if style.bold:
        rules.append("font-weight:600")
    if style.dim:
        rules.append("opacity:.65")
    if style.color is not None:
        rules.append(f"color:{COLOR.get(style.color.name, 'inherit')}")
    return f'<span style="{";".join(rules)}">{escape(text)}</span>' if rules else escape(text)
