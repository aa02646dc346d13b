"""A run as it is now, on one screen: verdict, memory, the newest steps, the call sites that grow."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from leakguard.live_view import LiveView
from leakguard.render.page import Page
from leakguard.render.sheet import changed_bytes, place_words
from leakguard.render.text import COUNTED_BY, STATUS_STYLE, fit_for, glyphs_for
from leakguard.render.wording import words
from leakguard.report import is_leak, is_warning
from leakguard.step_table import StepRow, StepTable
from leakguard.units import format_bytes, format_duration
from leakguard.wording import plural

__all__ = ["live_page", "overview_page"]

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-=+*#@"
LEAST_ROWS, MOST_ROWS = 4, 16
MOST_DEVICES = 3
SILENT = 30.0
WRAPPED = 20
"""Columns that a text of two lines may lose where it is broken between words."""


def live_page(view: LiveView, width: int, height: int, folder: str | None, encoding: str | None) -> Text:
    """At most `height` lines."""
    page = Page(width, glyphs_for(encoding))
    _header(page, view)
    _verdict(page, view)
    devices = view.table.devices[:MOST_DEVICES]
    page.blank()
    _memory(page, view, devices, encoding)
    room = height - len(page.lines) - 4  # two titles, two blank lines
    sites = view.growing()
    rows = max(LEAST_ROWS, min(MOST_ROWS, room - min(len(sites), max(LEAST_ROWS, room // 2)) - 1))
    if devices:
        page.blank()
        _steps(page, view.table, _fullest(view.table, devices), rows)
    left = height - len(page.lines) - 2
    if sites and left > 0:
        page.blank()
        _sites(page, view, left, folder)
    lines = page.lines[:height]
    return Text("\n").join(_fit(line, encoding, page.width) for line in lines)


def overview_page(views: Sequence[LiveView], width: int, height: int, encoding: str | None) -> Text:
    """A line a process."""
    page = Page(width, glyphs_for(encoding))
    page.labelled(Text(), Text(f"{len(views)} watched processes", "bold"), 0)
    page.blank()
    shown = views[: max(height - 4, 1)]
    page.table(("pid", "step", "alive", "a step", "verdict"), [_overview(view) for view in shown])
    page.blank()
    for view in shown:
        command = words(view.recording.command or "")
        page.labelled(Text(f"{view.pid}", "dim"), Text(_cut(command, width - 10)), 10)
    return Text("\n").join(_fit(line, encoding, page.width) for line in page.lines[:height])


def _header(page: Page, view: LiveView) -> None:
    steps = view.table.steps
    counted = f" ({COUNTED_BY[steps.source]})" if steps.source else ""
    facts = [f"pid {view.pid}"] if view.pid is not None else []
    facts.append(f"{plural(steps.count, 'step')}{counted}")
    if view.seconds is not None:
        facts.append(format_duration(view.seconds))
    if not view.running:
        facts.append("has ended")
    elif view.silent is not None and view.silent > SILENT:
        facts.append(f"last told {format_duration(view.silent)} ago")
    tail = ", ".join(facts)
    command = _cut(words(view.recording.command or "a watched run"), max(page.width - len(tail) - 3, 12))
    page.labelled(Text(), Text(command, "bold").append(f"   {tail}", "not bold dim"), 0)


def _verdict(page: Page, view: LiveView) -> None:
    """The status with what grows, and below it why: in three lines."""
    report = view.recording.report
    name = report.status.upper()
    indent = max(len(name), 3) + 2
    counted = [finding for finding in report.findings if is_leak(finding) or is_warning(finding)]
    first = counted[0] if counted and report.status in ("leak", "warning") else None
    head = first.title if first is not None else report.why
    more = (
        f" (and {plural(len(counted) - 1, 'more finding')})" if len(counted) > 1 and first is not None else ""
    )
    room = page.width - indent
    page.labelled(
        Text(name, STATUS_STYLE[report.status]), Text(_cut(words(head), room - len(more)) + more), indent
    )
    if first is not None:
        page.labelled(Text("why", "dim"), Text(_cut(words(first.why), 2 * room - WRAPPED)), indent)


def _memory(page: Page, view: LiveView, devices: Sequence[str], encoding: str | None) -> None:
    usages = {usage.device: usage for usage in view.recording.report.devices}
    rows = []
    for device in devices:
        steps = view.table.of(device)
        rate = usages[device].bytes_per_step if device in usages else None
        peak, reserved = max(row.peak for row in steps), steps[-1].reserved
        figures = (steps[-1].allocated, peak, reserved)
        sizes = ("-" if size is None else format_bytes(size) for size in figures)
        rows.append((words(device), *sizes, changed_bytes(rate)))
    if not rows:
        page.labelled(Text(), Text("no step has ended yet", "dim"), 0)
        return
    header: tuple[str, ...] = ("memory", "alive", "peak", "reserved", "a step")
    if all(row[3] == "-" for row in rows):
        header, *rows = [(*line[:3], *line[4:]) for line in (header, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
    room = page.width - sum(widths) - 2 * len(widths)
    pictures = ["alive at the end of each step"]
    pictures += [_spark(view.table.of(device), room, encoding) for device in devices] if room >= 8 else []
    for number, cells in enumerate([header, *rows]):
        style = "dim" if number == 0 else ""
        line = Text(_cells(cells, widths), style)
        if room >= 8:
            line.append("  " + _cut(pictures[number], room), style or "cyan")
        page.labelled(Text(), line, 0)


def _steps(page: Page, table: StepTable, device: str, most: int) -> None:
    header: tuple[str, ...] = (
        f"{words(device)} step",
        "trough",
        "peak",
        "at end",
        "consumed",
        "change",
        "time",
    )
    rows: list[tuple[str, ...]] = [
        (
            str(row.first_step) if row.steps == 1 else f"{row.first_step}-{row.last_step}",
            format_bytes(row.trough),
            format_bytes(row.peak),
            format_bytes(row.allocated),
            format_bytes(row.consumed),
            changed_bytes(row.change),
            "-" if row.seconds is None else format_duration(row.seconds / row.steps),
        )
        for row in table.of(device)[-most:]
    ]
    lines = [header, *rows]
    for spare in (1, 3, 2, 2):  # in a narrow terminal first the trough goes, then what was consumed, ...
        widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= page.width:
            break
        lines = [(*line[:spare], *line[spare + 1 :]) for line in lines]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for number, cells in enumerate(lines):
        page.labelled(Text(), Text(_cells(cells, widths), "dim" if number == 0 else ""), 0)


def _sites(page: Page, view: LiveView, most: int, folder: str | None) -> None:
    several = len(view.table.devices) > 1
    sites = view.growing()[: min(most, MOST_ROWS)]
    rows = [
        (changed_bytes(site.bytes_per_step), format_bytes(site.bytes), str(site.blocks)) for site in sites
    ]
    header = ("a step", "alive", "blocks")
    widths = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]
    room = page.width - sum(widths) - 2 * 3
    places = [
        (f"{words(site.device)}  " if several else "") + place_words(site.place, folder) for site in sites
    ]
    for number, (cells, place) in enumerate(zip([header, *rows], ["call site", *places], strict=True)):
        text = f"{_cells(cells, widths, words_first=False)}  {_cut(place, room)}"
        page.labelled(Text(), Text(text, "dim" if number == 0 else ""), 0)


def _overview(view: LiveView) -> tuple[str, ...]:
    report, table = view.recording.report, view.table
    alive = sum(table.of(device)[-1].allocated for device in table.devices)
    rate = sum(usage.bytes_per_step or 0.0 for usage in report.devices)
    return str(view.pid), str(table.steps.count), format_bytes(alive), changed_bytes(rate), report.status


def _fullest(table: StepTable, devices: Sequence[str]) -> str:
    return max(devices, key=lambda device: table.of(device)[-1].peak)


def _spark(rows: Sequence[StepRow], room: int, encoding: str | None) -> str:
    """What was alive at the end of the steps, as bars from nothing to the most; each bar is the same number of steps,
    but for the long rows of a thinned history, which show as often as they have steps."""
    last = rows[-1].last_step
    bars = BARS if fit_for(encoding, BARS) == BARS else PLAIN_BARS
    most = max(row.allocated for row in rows) or 1
    picture = []
    columns = min(room, last - rows[0].first_step + 1)
    place = 0
    for column in range(columns):
        step = rows[0].first_step + round((column + 1) * (last - rows[0].first_step + 1) / columns) - 1
        while rows[place].last_step < step:
            place += 1
        picture.append(bars[max(0, min(len(bars) - 1, (rows[place].allocated * len(bars) - 1) // most))])
    return "".join(picture)


def _cells(cells: Sequence[str], widths: Sequence[int], *, words_first: bool = True) -> str:
    padded = []
    for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        gap = " " * (width - cell_len(cell))
        padded.append(cell + gap if words_first and number == 0 else gap + cell)
    return "  ".join(padded)


def _cut(text: str, room: int) -> str:
    if cell_len(text) <= room:
        return text
    kept = text[: max(room - 3, 0)]
    while cell_len(kept) > room - 3 and kept:
        kept = kept[:-1]
    return f"{kept.rstrip()}..."


def _fit(line: Text, encoding: str | None, width: int) -> Text:
    fit = fit_for(encoding, line.plain)
    return line if fit == line.plain else Text(_cut(fit, width))
