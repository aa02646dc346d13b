"""The step table and the comparison of two steps, laid out."""

from __future__ import annotations

from collections.abc import Sequence

from leakguard.render.sheet import Sheet, changed_bytes, changed_count, place_words
from leakguard.render.wording import words
from leakguard.step_table import SiteChange, StepDiff, StepRow, StepTable
from leakguard.units import format_bytes, format_duration
from leakguard.wording import plural

__all__ = ["MOST_ROWS", "diff_sheets", "growth_sheet", "table_sheets"]

MOST_ROWS = 16
"""Rows of a device that are shown: with its frame they fit a terminal of 24 lines."""

STEP_COLUMNS = ("step", "trough", "peak", "at end", "consumed", "survivors", "change", "time")
PHASE_COLUMNS = ("backward", "optimizer")
CHANGE_COLUMNS = ("change", "blocks", "survivors", "alive")
SITES_SHOWN = 12


def table_sheets(table: StepTable) -> tuple[Sheet, ...]:
    """A sheet a device, thinned to MOST_ROWS."""
    source = f" ({table.steps.source})" if table.steps.source else ""
    if not table.rows:
        counted = plural(table.steps.count, "step")
        return (Sheet("steps", note=f"{counted} so far: a row appears when the first one ends"),)
    thinned = table.thinned(MOST_ROWS)
    phases = any(row.backward_seconds or row.optimizer_seconds for row in thinned.rows)
    return tuple(
        Sheet(
            f"{words(device)}, {plural(table.steps.count, 'step')}{source}",
            (*STEP_COLUMNS, *PHASE_COLUMNS) if phases else STEP_COLUMNS,
            tuple((*_cells(row), *(_phases(row) if phases else ())) for row in thinned.of(device)),
            spare=(*(PHASE_COLUMNS if phases else ()), "at end", "time", "trough", "consumed"),
        )
        for device in thinned.devices
    )


def diff_sheets(diff: StepDiff, folder: str | None) -> tuple[Sheet, ...]:
    """By call site, and by module where there are any."""
    title = f"from the end of step {diff.from_step} to the end of step {diff.to_step}"
    if not diff.sites:
        return (Sheet(title, note="nothing changed"),)
    blocks = sum(site.blocks for site in diff.sites)
    total = f"{changed_bytes(sum(site.bytes for site in diff.sites))}, {changed_count(blocks)} blocks"
    sheets = []
    for device in dict.fromkeys(site.device for site in diff.sites):
        sites = [site for site in diff.sites if site.device == device]
        shown = [(_sums([site]), place_words(site.place, folder)) for site in sites[:SITES_SHOWN]]
        if sites[SITES_SHOWN:]:
            rest = sites[SITES_SHOWN:]
            shown.append((_sums(rest), plural(len(rest), "other call site")))
        rows = tuple((*numbers, where) for numbers, where in shown)
        sheets.append(
            Sheet(f"{words(device)} by call site", (*CHANGE_COLUMNS, "call site"), rows, words_last=True)
        )
        modules = [entry for entry in diff.by_module() if entry[0] == device]
        if any(module for _, module, *_ in modules):
            by_module = tuple(
                (changed_bytes(size), changed_count(blocks), words(module) or "no module")
                for _, module, size, blocks in modules[:SITES_SHOWN]
            )
            title_of = f"{words(device)} by module"
            sheets.append(Sheet(title_of, ("change", "blocks", "module"), by_module, words_last=True))
    return (Sheet(title, note=total), *sheets)


def growth_sheet(growth: StepDiff, folder: str | None) -> Sheet:
    """What call sites have more, where nothing is known of their single blocks."""
    sites, rest = growth.sites[:SITES_SHOWN], growth.sites[SITES_SHOWN:]
    several = len({site.device for site in growth.sites}) > 1
    rows = [
        (*_more([site]), (f"{words(site.device)}   " if several else "") + place_words(site.place, folder))
        for site in sites
    ]
    if rest:
        rows.append((*_more(rest), plural(len(rest), "other call site")))
    title = f"from the end of step {growth.from_step} to the end of step {growth.to_step}"
    return Sheet(title, ("change", "blocks", "alive", "call site"), tuple(rows), words_last=True)


def _more(sites: Sequence[SiteChange]) -> tuple[str, ...]:
    return (
        changed_bytes(sum(site.bytes for site in sites)),
        changed_count(sum(site.blocks for site in sites)),
        format_bytes(sum(site.live_bytes for site in sites)),
    )


def _sums(sites: Sequence[SiteChange]) -> tuple[str, ...]:
    return (
        changed_bytes(sum(site.bytes for site in sites)),
        changed_count(sum(site.blocks for site in sites)),
        format_bytes(sum(site.survivor_bytes for site in sites)),
        format_bytes(sum(site.live_bytes for site in sites)),
    )


def _cells(row: StepRow) -> tuple[str, ...]:
    steps = str(row.first_step) if row.steps == 1 else f"{row.first_step}-{row.last_step}"
    return (
        steps,
        format_bytes(row.trough),
        format_bytes(row.peak),
        format_bytes(row.allocated),
        format_bytes(row.consumed),
        format_bytes(row.survivors),
        changed_bytes(row.change),
        _pace(row.seconds, row.steps),
    )


def _phases(row: StepRow) -> tuple[str, ...]:
    return tuple(_pace(seconds, row.steps) for seconds in (row.backward_seconds, row.optimizer_seconds))


def _pace(seconds: float | None, steps: int) -> str:
    return "-" if seconds is None else format_duration(seconds / steps)
