"""Two compared reports, laid out."""

from __future__ import annotations

from collections.abc import Sequence

from leakguard.render.sheet import Sheet, category_words, changed_bytes, place_words
from leakguard.render.wording import words
from leakguard.report import Finding
from leakguard.report_diff import FindingChange, ReportDiff, SiteDifference
from leakguard.units import format_bytes
from leakguard.wording import plural

__all__ = ["report_diff_sheets"]

SITES_SHOWN = 12


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
    if diff.categories:
        sheets.append(_category_sheet(diff))
    if diff.sites:
        sheets.append(_site_sheet(diff, folder))
    return tuple(sheets)


def _category_sheet(diff: ReportDiff) -> Sheet:
    several = len({one.device for one in diff.categories}) > 1
    rows = tuple(
        (
            changed_bytes(one.after - one.before),
            format_bytes(one.before),
            format_bytes(one.after),
            (f"{words(one.device)}   " if several else "") + category_words(one.category),
        )
        for one in diff.categories
    )
    return Sheet(
        "alive at the end, by category", ("change", "before", "after", "category"), rows, words_last=True
    )


def _site_sheet(diff: ReportDiff, folder: str | None) -> Sheet:
    several = len({one.device for one in diff.sites}) > 1
    rows = [
        (
            *_site_figures([one]),
            (f"{words(one.device)}   " if several else "") + place_words(one.place, folder),
        )
        for one in diff.sites[:SITES_SHOWN]
    ]
    if rest := diff.sites[SITES_SHOWN:]:
        rows.append((*_site_figures(rest), plural(len(rest), "other call site")))
    columns = ("change", "before", "after", "a step", "call site")
    return Sheet("alive at the end, by call site", columns, tuple(rows), words_last=True)


def _site_figures(sites: Sequence[SiteDifference]) -> tuple[str, ...]:
    before, after = [one.before for one in sites], [one.after for one in sites]
    rates = [one.rate for one in sites if one.rate is not None]
    return (
        changed_bytes(sum(one.bytes for one in sites)),
        _total(before),
        _total(after),
        changed_bytes(sum(rates)) if rates else "-",
    )


def _total(sizes: Sequence[int | None]) -> str:
    known = [size for size in sizes if size is not None]
    return format_bytes(sum(known)) if known else "-"


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
