"""Two compared reports, laid out."""

from __future__ import annotations

from leakguard.render.sheet import Sheet, changed_bytes, place_words
from leakguard.render.wording import words
from leakguard.report import Finding
from leakguard.report_diff import FindingChange, ReportDiff
from leakguard.units import format_bytes
from leakguard.wording import plural

__all__ = ["report_diff_sheets"]


def report_diff_sheets(diff: ReportDiff, folder: str | None) -> tuple[Sheet, ...]:
    """Facts that differ, findings that differ."""
    sheets = []
    if diff.facts:
        facts = tuple((words(one.name), words(one.before), words(one.after)) for one in diff.facts)
        sheets.append(Sheet("differs", ("", "before", "after"), facts))
    alike = f"{plural(diff.same, 'finding')} in both, growing alike" if diff.same else ""
    if diff.findings:
        columns = ("", "change a step", "before", "after", "finding")
        rows = tuple(_cells(change, folder) for change in diff.findings)
        sheets.append(Sheet("findings", columns, rows, words_last=True, note=alike))
    elif alike or not sheets:
        sheets.append(Sheet("findings", note=alike or "none that differ"))
    return tuple(sheets)


def _cells(change: FindingChange, folder: str | None) -> tuple[str, ...]:
    finding = change.either
    kind = "new" if change.before is None else "gone" if change.after is None else "both"
    place = finding.allocated_at
    parts = [words(finding.fingerprint), place_words(place, folder) if place.file else words(finding.title)]
    if finding.category != "unknown":
        parts.append(words(finding.category))
    if finding.verdict != "growing":
        parts.append(finding.verdict.replace("-", " "))
    return (
        kind,
        changed_bytes(change.bytes_per_step),
        _rate(change.before),
        _rate(change.after),
        "   ".join(parts),
    )


def _rate(finding: Finding | None) -> str:
    return "-" if finding is None else format_bytes(finding.bytes_per_step)
