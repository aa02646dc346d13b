"""How much of what survives of each step was born where a finding says."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace

from leakguard._native import core
from leakguard.report import Finding, Place, is_leak, is_warning
from leakguard.sites import site_of
from leakguard.step_table import StepTable

__all__ = ["found_filled_in", "found_survivors"]


def found_filled_in(table: StepTable, findings: Iterable[Finding], base: int) -> StepTable:
    """The table with `found` in its rows; `base` is the ledger's number of its first step. Looks at every live block
    when there are findings that count."""
    shift = base - 1
    ends = sorted({row.last_step + shift for row in table.rows})
    sums = found_survivors(findings, ends, base)
    if sums is None:
        return table
    rows = (replace(row, found=sums.get((row.device, row.last_step + shift), 0)) for row in table.rows)
    return replace(table, rows=tuple(rows))


def found_survivors(
    findings: Iterable[Finding], ends: Sequence[int], base: int
) -> dict[tuple[str, int], int] | None:
    """Bytes alive now that were born where a finding says, by device and last step of the row; `ends` are the rows'
    last steps, ascending, by the ledger's numbers as `base` is. None when no finding counts, or there is no row."""
    born_at = {
        _key(place)
        for finding in findings
        if is_leak(finding) or is_warning(finding)
        for place in (finding.allocated_at, *finding.also_born_at)
    }
    if not born_at or not ends:
        return None
    sums: dict[tuple[str, int], int] = {}
    wanted: dict[int, bool] = {}
    for _, requested, device, born, group, _, _, pending, *_ in core.blocks():
        if pending or not base <= born <= ends[-1]:
            continue
        if group not in wanted:
            wanted[group] = _key(site_of(group).place) in born_at
        if wanted[group]:
            key = (device, ends[bisect.bisect_left(ends, born)])
            sums[key] = sums.get(key, 0) + requested
    return sums


def _key(place: Place) -> tuple[str | None, int | None, str | None]:
    return place.file, place.line, place.function
