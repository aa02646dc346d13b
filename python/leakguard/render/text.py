"""The report as text: verdict, why, next; then each finding with its birth, its holder and what letting go
would free.

Made for a terminal of any width, a pipe, a log. Colour comes only with a terminal that has it, and adds
nothing that the words do not say.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TextIO

from leakguard.render.page import ASCII, GAP, Glyphs, Page, Row
from leakguard.render.wording import own_name, script_name, short_path, shorten, visible
from leakguard.report import DeviceUsage, Finding, Link, Report, is_leak, is_warning
from leakguard.units import format_bytes, format_number, format_share
from rich.console import Console
from rich.text import Text

STATUS_STYLE = {
    "leak": "bold red",
    "warning": "bold yellow",
    "clean": "bold green",
    "inconclusive": "bold magenta",
}
LABEL_STYLE = "dim"
INDENT = 11
LONGEST_CHAIN = 12


def to_text(report: Report, *, width: int | None = None, folder: str | None = None) -> str:
    """The whole report as plain text. Paths in `folder` (the working folder by default) are shown relative to
    it."""
    if width is None:
        width = shutil.get_terminal_size((80, 24)).columns
    writer = Writer(Page(width, Glyphs()), _folder(folder))
    writer.report(report)
    return "\n".join(line.plain for line in writer.page.lines)


def print_report(
    report: Report,
    file: TextIO,
    *,
    folder: str | None = None,
    brief: bool = False,
    saved_as: Path | None = None,
) -> None:
    """Prints the report to `file`, in colour where that is a terminal. With `brief` a clean one takes one
    line."""
    console = Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True)
    glyphs = Glyphs() if _can_draw(file) else ASCII
    writer = Writer(Page(console.width, glyphs), _folder(folder))
    if brief and report.status == "clean":
        writer.one_line(report)
    else:
        writer.report(report)
    if saved_as is not None:
        writer.saved(saved_as)
    for line in writer.page.lines:
        console.print(line)


class Writer:
    """Writes a report on a page, part by part."""

    def __init__(self, page: Page, folder: str | None) -> None:
        self.page = page
        self._folder = folder

    def report(self, report: Report) -> None:
        """The whole report."""
        counted = [finding for finding in report.findings if is_leak(finding) or is_warning(finding)]
        settled = [finding for finding in report.findings if finding not in counted]
        self._verdict(report, counted)
        for number, finding in enumerate(counted, 1):
            self.page.blank()
            if len(counted) > 1:
                self._line(f"{number} of {len(counted)}", Text(_words(finding.title), "bold"))
            self._finding(finding, report)
        self._settled(settled)
        self._advice(report)
        self.page.blank()
        self._devices(report.devices)
        self.page.blank()
        self._footer(report)

    def one_line(self, report: Report) -> None:
        """A clean report where nobody wants to read one."""
        peaks = [
            f"{_words(one.device)} peak {format_bytes(one.peak_bytes)}"
            for one in report.devices
            if one.peak_bytes
        ]
        parts = [Text(", ".join([f"leakguard: {_steps(report)}", *peaks]))]
        self.page.flow(Text("CLEAN", STATUS_STYLE["clean"]), parts, 7)

    def saved(self, path: Path) -> None:
        """Where the report has been saved."""
        self.page.labelled(Text("saved", LABEL_STYLE), Text(self._path(str(path))), 7)

    def _verdict(self, report: Report, counted: list[Finding]) -> None:
        name = report.status.upper()
        indent = max(len(name), len("next")) + 2
        head = _words(report.why)
        if counted and report.status in ("leak", "warning"):
            head = _words(counted[0].title)
            if len(counted) > 1:
                head = f"{head}, and {len(counted) - 1} more below"
        self.page.labelled(Text(name, STATUS_STYLE[report.status]), Text(head, "bold"), indent)
        if head != _words(report.why):
            self.page.labelled(Text("why", LABEL_STYLE), Text(_words(report.why)), indent)
        if report.next:
            self.page.labelled(Text("next", LABEL_STYLE), Text(_words(report.next)), indent)

    def _finding(self, finding: Finding, report: Report) -> None:
        if finding.why and finding.why != report.why:
            self._line("why", Text(_words(finding.why)))
        if finding.fix and finding.fix != report.next:
            self._line("fix", Text(_words(finding.fix)))
        self._birth(finding)
        if finding.retained_by:
            self.page.tree(Text("held by", LABEL_STYLE), self._rows(finding), INDENT)
        else:
            self.page.flow(Text("alive", LABEL_STYLE), self._alive(finding), INDENT)
        self._frees(finding)

    def _birth(self, finding: Finding) -> None:
        place = finding.allocated_at
        parts = [Text(self._place(place.file, place.line, place.function), "bold")]
        if place.expression:
            parts.append(Text(shorten(visible(place.expression)), "cyan"))
        if place.module:
            parts.append(Text(f"module {_words(place.module)}"))
        if place.op:
            parts.append(Text(_words(place.op)))
        kind = "" if finding.category == "unknown" else visible(finding.category).replace("_", " ")
        phase = "" if place.phase == "other" else f"in {visible(place.phase)}"
        if kind or phase:
            parts.append(Text(f"{kind} {phase}".strip()))
        if place.via:
            parts.append(Text(f"via {self._path(place.via)}", LABEL_STYLE))
        self.page.flow(Text("born at", LABEL_STYLE), parts, INDENT)

    def _rows(self, finding: Finding) -> list[Row]:
        script = script_name(finding)
        root, chain = _words(own_name(finding.root, script)), list(finding.retained_by)
        rows = []
        if root and not root.startswith(chain[0].edge):
            rows.append(Row(Text(root, "bold"), Text()))
        for link in _folded(chain):
            if isinstance(link, int):
                rows.append(Row(Text(f"... {link} more", LABEL_STYLE), Text()))
                continue
            name = (
                _words(own_name(link.name, script))
                if link.name is not None
                else "[x]"
                if link.edge == "item"
                else ""
            )
            if link is chain[0] and root.startswith(link.edge):
                name = root[len(link.edge) :].strip()
            left = Text(visible(link.edge)).append(f" {name}" if name else "", "bold")
            right = Text(_words(own_name(link.type or "", script)))
            if link.file and link is not chain[0]:
                gap = GAP if right.plain else ""
                right.append(f"{gap}{self._place(link.file, link.line, None)}", LABEL_STYLE)
            rows.append(Row(left, right))
        mark = rows[-1].right
        mark.append(f"{GAP if mark.plain else ''}~~~ {_amount(finding)}", "bold red")
        return rows

    def _alive(self, finding: Finding) -> list[Text]:
        parts = [Text(_amount(finding), "bold")]
        if finding.bytes_per_step or finding.blocks_per_step:
            since = f" since step {finding.first_step}" if finding.first_step is not None else ""
            parts.append(Text(f"+{format_bytes(finding.bytes_per_step)} a step{since}"))
        if finding.example is not None:
            shape = ", ".join(map(str, finding.example.shape))
            grad = ", requires grad" if finding.example.requires_grad else ""
            parts.append(Text(f"such as Tensor [{shape}] {visible(finding.example.dtype)}{grad}"))
        return parts

    def _frees(self, finding: Finding) -> None:
        mark = Text(f"fingerprint {visible(finding.fingerprint)}", LABEL_STYLE)
        if finding.retained_bytes <= 0:
            self.page.flow(Text("known as", LABEL_STYLE), [mark], INDENT)
            return
        freed = Text(format_bytes(finding.retained_bytes), "bold")
        freed.append(f" {_when_freed(finding)}", "not bold")
        self.page.flow(Text("frees", LABEL_STYLE), [freed, mark], INDENT)

    def _settled(self, settled: list[Finding]) -> None:
        self.page.blank()
        for number, finding in enumerate(settled):
            text = Text(_words(finding.title)).append(
                f"   {finding.verdict}, {format_bytes(finding.bytes)}", LABEL_STYLE
            )
            self._line("also seen" if number == 0 else "", text)

    def _advice(self, report: Report) -> None:
        self.page.blank()
        for number, advice in enumerate(report.advice):
            saves = f" (saves {format_bytes(advice.saves_bytes)})" if advice.saves_bytes else ""
            self._line(
                "advice" if number == 0 else "", Text(f"{_words(advice.topic)}: {_words(advice.text)}{saves}")
            )

    def _devices(self, devices: tuple[DeviceUsage, ...]) -> None:
        columns = {
            "allocated": [_size(one.allocated_bytes) for one in devices],
            "reserved": [_size(one.reserved_bytes) for one in devices],
            "peak": [_size(one.peak_bytes) for one in devices],
            "a step": [_size(one.bytes_per_step, "+") for one in devices],
            "fragmented": [
                "" if one.fragmentation is None else format_share(one.fragmentation) for one in devices
            ],
            "outside": [_size(one.outside_allocator_bytes) for one in devices],
        }
        known = {name: cells for name, cells in columns.items() if any(cells)}
        if devices and known:
            rows = [
                [_words(one.device), *(cells[i] or "-" for cells in known.values())]
                for i, one in enumerate(devices)
            ]
            self.page.table(["device", *known], rows)

    def _footer(self, report: Report) -> None:
        lost = report.lost
        counts = {
            "event": lost.events,
            "block of unknown birth": lost.unknown_births,
            "device not covered": lost.uncovered_devices,
            "failure inside leakguard": lost.failures,
        }
        missed = [f"{count} {_plural(name, count)}" for name, count in counts.items() if count]
        if missed:
            self._line("lost", Text(", ".join(missed), "yellow"))
        cost = report.overhead
        parts = [_steps(report)]
        if cost.seconds or cost.host_bytes:
            parts.append(
                f"cost {cost.seconds:.2f} s ({format_share(cost.fraction)}), {format_bytes(cost.host_bytes)}"
            )
        versions = {"torch": report.torch, "python": report.python, "leakguard": report.leakguard}
        parts.append(", ".join(f"{name} {visible(version)}" for name, version in versions.items() if version))
        self.page.flow(
            Text("watched", LABEL_STYLE), [Text(part, LABEL_STYLE) for part in parts if part], INDENT
        )

    def _line(self, label: str, text: Text) -> None:
        self.page.labelled(Text(label, LABEL_STYLE), text, INDENT)

    def _path(self, path: str) -> str:
        return visible(short_path(path, self._folder))

    def _place(self, file: str | None, line: int | None, function: str | None) -> str:
        where = self._path(file) if file else "an unknown line"
        if file and line is not None:
            where = f"{where}:{line}"
        return f"{where} in {visible(function)}" if function else where


def _folded(chain: list[Link]) -> list[Link | int]:
    """The chain, with the middle of a long one as its length."""
    if len(chain) <= LONGEST_CHAIN:
        return list(chain)
    return [*chain[: LONGEST_CHAIN - 4], len(chain) - LONGEST_CHAIN + 1, *chain[-3:]]


def _when_freed(finding: Finding) -> str:
    script = script_name(finding)
    first = finding.retained_by[0] if finding.retained_by else None
    if finding.verdict == "waiting-for-gc":
        return "when the garbage collector runs"
    if first is None or first.edge == "native":
        return "if its C++ holder lets go"
    root = _words(own_name(finding.root, script))
    if not root.startswith(first.edge):
        return f"without the {root}" if root else "if its holder lets go"
    return f"if {root[len(first.edge) :].strip()} lets go"


def _amount(finding: Finding) -> str:
    if finding.blocks <= 1:
        return format_bytes(finding.bytes)
    return f"{format_bytes(finding.bytes / finding.blocks)} x {format_number(finding.blocks)}"


def _steps(report: Report) -> str:
    steps = report.steps
    if not steps.count:
        return "no steps"
    source = {"explicit": "leakguard.step()", "optimizer": "the optimizer's steps"}.get(
        steps.source or "", steps.source
    )
    warmup = f", {steps.warmup} of them warm-up" if steps.warmup else ""
    return f"{steps.count} {_plural('step', steps.count)}{warmup}" + (f", told by {source}" if source else "")


def _plural(name: str, count: int) -> str:
    first, _, rest = name.partition(" ")
    return name if count == 1 else f"{first}s {rest}".strip()


def _size(size: float | None, sign: str = "") -> str:
    if size is None:
        return ""
    return f"{sign if size > 0 else ''}{format_bytes(size)}"


def _words(text: str) -> str:
    return shorten(visible(text), 400)


def _folder(folder: str | None) -> str | None:
    if folder is not None:
        return folder
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return None


def _can_draw(file: TextIO) -> bool:
    encoding = getattr(file, "encoding", None) or "utf-8"
    try:
        "┬├╰│─".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
