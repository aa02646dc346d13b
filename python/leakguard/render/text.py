"""The report as text: verdict, why, next; then each finding with its birth, its holder and what it would
free.

Made for a terminal of any width, a pipe, a log. Colour comes only with a terminal that has it, and adds
nothing that the words do not say.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.text import Text

from leakguard.render.leak_trace import DIM, INDENT, LeakTrace
from leakguard.render.page import ASCII, Glyphs, Page
from leakguard.render.paper import Paper
from leakguard.render.wording import short_path, words
from leakguard.report import Advice, DeviceUsage, Finding, Lost, Report, Steps, is_leak, is_warning
from leakguard.units import format_bytes, format_share

STATUS_STYLE = {
    "leak": "bold red",
    "warning": "bold yellow",
    "clean": "bold green",
    "inconclusive": "bold magenta",
}
COUNTED_BY = {
    "explicit": "leakguard.step()",
    "optimizer": "optimizer",
    "backward": "backward",
    "forward": "forward",
}


def to_text(
    report: Report, *, width: int | None = None, folder: str | None = None, encoding: str | None = None
) -> str:
    """The whole report as plain text, in the width of the terminal, or 80 where there is none.

    Paths inside `folder`, by default the working folder, are shown relative to it. With `encoding`, what it
    lacks is shown as escapes, so that printing the text cannot fail.
    """
    width = width or shutil.get_terminal_size((80, 24)).columns
    page = Page(width, glyphs_for(encoding))
    write_report(page, report, folder or working_folder())
    return "\n".join(fit_for(encoding, line.plain) for line in page.lines)


def print_report(
    report: Report,
    file: TextIO,
    *,
    title: str | None = None,
    saved: Sequence[Path] = (),
    folder: str | None = None,
) -> None:
    """Prints the whole report to `file`, in colour where that is a terminal: under a rule with `title` and
    above the place where it has been saved, when these are given."""
    folder = folder or working_folder()
    encoding = getattr(file, "encoding", None)  # what a script puts in the place of stderr may have none
    console = Console(file=file, highlight=False, soft_wrap=True)
    page = Page(console.width, glyphs_for(encoding))
    if title is not None:
        page.rule(words(title))
    write_report(page, report, folder)
    for number, path in enumerate(saved):
        page.labelled(Text("" if number else "saved", DIM), Text(short_path(str(path), folder), DIM), INDENT)
    whole = Text("\n").join(page.lines)  # printed at once: other ranks print to the same terminal
    fit = fit_for(encoding, whole.plain)
    console.print(whole if fit == whole.plain else Text(fit))


def print_line(
    report: Report, file: TextIO, *, saved: Sequence[Path] = (), folder: str | None = None
) -> None:
    """Prints a report in one sentence, for when nobody wants to read more."""
    peaks = [
        f"{format_bytes(one.peak_bytes)} on {words(one.device)}" for one in report.devices if one.peak_bytes
    ]
    parts = [count_steps(report.steps)]
    if peaks:
        parts.append(f"peak {', '.join(peaks)}")
    if saved:
        places = [short_path(str(path), folder or working_folder()) for path in saved]
        parts.append(f"saved {', '.join(places)}")
    rest = Text(fit_for(getattr(file, "encoding", None), f", {'; '.join(parts)}"))
    line = Text("leakguard: ").append(report.status, STATUS_STYLE[report.status]).append_text(rest)
    Console(file=file, highlight=False, soft_wrap=True).print(line)


def write_report(page: Paper, report: Report, folder: str | None) -> None:
    """Writes the whole report on the page."""
    write_verdict(page, report, counted_findings(report))
    write_details(page, report, folder)


def counted_findings(report: Report) -> list[Finding]:
    """The findings that make the status what it is."""
    return [finding for finding in report.findings if is_leak(finding) or is_warning(finding)]


def write_details(page: Paper, report: Report, folder: str | None) -> None:
    """Writes what stands below the verdict."""
    counted = counted_findings(report)
    for number, finding in enumerate(counted, 1):
        page.blank()
        if len(counted) > 1:
            page.labelled(Text(f"{number} of {len(counted)}"), Text(words(finding.title), "bold"), INDENT)
        write_finding(page, finding, report, folder)
    page.blank()
    write_settled(page, settled_findings(report))
    page.blank()
    write_advice(page, report.advice)
    page.blank()
    write_devices(page, report.devices)
    page.blank()
    write_footer(page, report)


def write_verdict(page: Paper, report: Report, counted: list[Finding]) -> None:
    """The three lines that matter."""
    name = report.status.upper()
    indent = max(len(name), len("next")) + 2
    head, why, following = verdict_of(report, counted)
    page.labelled(Text(name, STATUS_STYLE[report.status]), Text(head, "bold"), indent)
    for label, text in (("why", why), ("next", following)):
        if text:
            page.labelled(Text(label, DIM), Text(text), indent)


def verdict_of(report: Report, counted: list[Finding]) -> tuple[str, str, str]:
    """The words of the three lines. A leak is headed by its first finding, all else by the reason; a line may be
    empty."""
    head, why = words(report.why), ""
    if counted and report.status in ("leak", "warning"):
        head, why = words(counted[0].title), head
        if len(counted) > 1:
            head = f"{head}; {len(counted) - 1} more below"
    return head, why, words(report.next)


def settled_findings(report: Report) -> list[Finding]:
    """Those that are no cause for alarm."""
    counted = counted_findings(report)
    return [finding for finding in report.findings if finding not in counted]


def write_finding(page: Paper, finding: Finding, report: Report, folder: str | None) -> None:
    """Why, fix and leak trace of one finding; what the verdict has said already is not said again."""
    if finding.why and finding.why != report.why:
        page.labelled(Text("why", DIM), Text(words(finding.why)), INDENT)
    if finding.fix and finding.fix != report.next:
        page.labelled(Text("fix", DIM), Text(words(finding.fix)), INDENT)
    LeakTrace(page, finding, folder).write()


def write_settled(page: Paper, settled: Sequence[Finding]) -> None:
    """One row for each finding that is no cause for alarm."""
    for number, finding in enumerate(settled):
        page.flow(Text("" if number else "also seen", DIM), settled_parts(finding), INDENT)


def write_advice(page: Paper, advice: Sequence[Advice]) -> None:
    """One row for each thing that would save memory."""
    for number, one in enumerate(advice):
        saves = f" (saves {format_bytes(one.saves_bytes)})" if one.saves_bytes else ""
        text = Text(f"{words(one.topic)}: {words(one.text)}{saves}")
        page.labelled(Text("" if number else "advice", DIM), text, INDENT)


def settled_parts(finding: Finding) -> list[Text]:
    """A finding that is no cause for alarm, in a line: a known resident, or a holder that is at its limit."""
    kind = finding.verdict.replace("-", " ")
    return [Text(words(finding.title)), Text(f"{kind}, {format_bytes(finding.bytes)}", DIM)]


def write_devices(page: Paper, devices: tuple[DeviceUsage, ...]) -> None:
    """A table of the devices and the columns of which anything is known."""
    columns = ("allocated", "reserved", "peak", "a step", "fragmented", "outside torch")
    cells = {words(one.device): _usage(one) for one in devices}
    known = [number for number in range(len(columns)) if any(usage[number] for usage in cells.values())]
    rows = [[device, *(usage[number] for number in known)] for device, usage in cells.items() if any(usage)]
    if rows:
        page.table(["device", *(columns[number] for number in known)], rows)


def write_footer(page: Paper, report: Report) -> None:
    """What the verdict stands on: the steps, what was lost, what watching has cost, versions."""
    missed = missed_parts(report.lost)
    if missed:
        page.labelled(Text("lost", DIM), Text(", ".join(missed), "yellow"), INDENT)
    cost = report.overhead
    warmup = f", the first {report.steps.warmup} for warm-up" if report.steps.warmup else ""
    parts = [count_steps(report.steps) + warmup]
    if cost.seconds > 0:
        parts.append(
            f"cost {cost.seconds:.2f} s ({format_share(cost.fraction)}), {format_bytes(cost.host_bytes)}"
        )
    versions = {"torch": report.torch, "python": report.python, "leakguard": report.leakguard}
    parts.append(", ".join(f"{name} {words(version)}" for name, version in versions.items() if version))
    page.flow(Text("watched", DIM), [Text(part, DIM) for part in parts if part], INDENT)


def count_steps(steps: Steps) -> str:
    """`40 steps (optimizer)`."""
    source = f" ({COUNTED_BY[steps.source]})" if steps.source else ""
    return _count(steps.count, "step") + source if steps.count else "no steps"


def missed_parts(lost: Lost) -> list[str]:
    """What has been lost, each kind with its count; empty in a healthy run."""
    kinds = [
        (lost.events, "event", ""),
        (lost.unknown_births, "block", " of unknown birth"),
        (lost.uncovered_devices, "device", " not covered"),
        (lost.failures, "failure", " inside leakguard"),
    ]
    return [_count(number, noun) + rest for number, noun, rest in kinds if number]


def working_folder() -> str | None:
    """The working folder, or None when it has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def glyphs_for(encoding: str | None) -> Glyphs:
    """The characters for trees that `encoding` has."""
    drawn = "".join(vars(Glyphs()).values())
    return Glyphs() if fit_for(encoding, drawn) == drawn else ASCII


def fit_for(encoding: str | None, text: str) -> str:
    """The text, with escapes for what `encoding` lacks."""
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _size(size: float | None) -> str:
    return "" if size is None else format_bytes(size)


def _usage(one: DeviceUsage) -> list[str]:
    rate = _size(one.bytes_per_step)
    return [
        _size(one.allocated_bytes),
        _size(one.reserved_bytes),
        _size(one.peak_bytes),
        f"+{rate}" if one.bytes_per_step is not None and one.bytes_per_step > 0 else rate,
        "" if one.fragmentation is None else format_share(one.fragmentation),
        _size(one.outside_allocator_bytes),
    ]
