"""Two runs compared: what two reports differ in, and what of memory two recordings do, by call site and category."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath

from leakguard.recording import Recording
from leakguard.report import Place
from leakguard.report_diff import (
    RATE_TOLERANCE,
    CategoryDifference,
    Changed,
    ReportDiff,
    SiteDifference,
    compare,
)
from leakguard.run_stats import RunStats, SiteStats, site_stats, stats_of
from leakguard.units import format_bytes, format_duration

__all__ = ["compare_recordings"]

TIME_TOLERANCE = 0.1
"""Times that differ by less are the same."""

Key = tuple[str, str, str, str, str]


def compare_recordings(before: Recording, after: Recording) -> ReportDiff:
    """What differs from `before` to `after`; empty for a recording and itself. Call sites are matched by file name,
    function, expression and phase: a line may have moved, and a folder may be another."""
    old, new = _comparable(before, after)
    diff = compare(before.report, after.report)
    return replace(
        diff,
        facts=(*diff.facts, *_facts(stats_of(before), stats_of(after))),
        sites=tuple(_sites(old, new)) if old is not None and new is not None else (),
        categories=tuple(_categories(before, after)),
    )


def _comparable(before: Recording, after: Recording) -> tuple[Recording | None, Recording | None]:
    """Both with the call sites that both can tell: all that was alive at the end, or those that grew where one of the
    runs did not come to its end."""
    both = (before, after)
    if all(one.snapshot is not None for one in both):
        return both
    if all(one.growth is not None for one in both):
        return replace(before, snapshot=None), replace(after, snapshot=None)
    return None, None


def _sites(before: Recording, after: Recording) -> list[SiteDifference]:
    old, new = _by_key(site_stats(before)), _by_key(site_stats(after))
    found = []
    for key in {**old, **new}:
        one, other = old.get(key), new.get(key)
        shown = other or one
        assert shown is not None
        difference = SiteDifference(
            device=shown.device,
            place=shown.place,
            before=one.bytes if one else None,
            after=other.bytes if other else None,
            before_rate=one.bytes_per_step if one else None,
            after_rate=other.bytes_per_step if other else None,
        )
        if not (
            _alike(difference.before, difference.after)
            and _alike(difference.before_rate, difference.after_rate)
        ):
            found.append(difference)
    return sorted(found, key=lambda one: (-abs(one.bytes), -abs(one.rate or 0.0)))


def _by_key(sites: Iterable[SiteStats]) -> dict[Key, SiteStats]:
    """Sums of what is one call site to a reader of both runs."""
    sums: dict[Key, SiteStats] = {}
    for site in sites:
        key = _key(site.device, site.place)
        seen = sums.get(key)
        if seen is None:
            sums[key] = site
            continue
        rates = [one.bytes_per_step for one in (seen, site) if one.bytes_per_step is not None]
        sums[key] = replace(
            seen,
            bytes=seen.bytes + site.bytes,
            blocks=seen.blocks + site.blocks,
            bytes_per_step=sum(rates) if rates else None,
        )
    return sums


def _key(device: str, place: Place) -> Key:
    line = place.expression or str(place.line or "")
    return device, PurePath(place.file or "").name, place.function or "", line, place.phase


def _categories(before: Recording, after: Recording) -> list[CategoryDifference]:
    if before.snapshot is None or after.snapshot is None:
        return []
    old, new = (
        {(one.device, one.category): one.bytes for one in snapshot.by_category()}
        for snapshot in (before.snapshot, after.snapshot)
    )
    found = [
        CategoryDifference(device=device, category=category, before=old.get(key, 0), after=new.get(key, 0))
        for key in {**old, **new}
        for device, category in (key,)
        if not _alike(old.get(key, 0), new.get(key, 0))
    ]
    return sorted(found, key=lambda one: -abs(one.after - one.before))


def _facts(before: RunStats, after: RunStats) -> list[Changed]:
    facts = [("command", before.command or "-", after.command or "-")]
    facts.append(("steps", str(before.steps.count), str(after.steps.count)))
    one, other = _time(before), _time(after)
    if one is not None and other is not None and not math.isclose(one, other, rel_tol=TIME_TOLERANCE):
        facts.append(("time a step", format_duration(one), format_duration(other)))
    old, new = ({one.device: one.peak for one in stats.devices} for stats in (before, after))
    for device in {**old, **new}:
        was, became = old.get(device), new.get(device)
        if not _alike(was, became):
            facts.append((f"{device} peak", _size(was), _size(became)))
    return [Changed(name=name, before=one, after=other) for name, one, other in facts if one != other]


def _time(stats: RunStats) -> float | None:
    return stats.seconds / stats.timed if stats.seconds is not None and stats.timed else None


def _size(size: int | None) -> str:
    return "-" if size is None else format_bytes(size)


def _alike(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=RATE_TOLERANCE)
