"""The figures of a run, laid out."""

from __future__ import annotations

from leakguard.render.sheet import Sheet, changed_bytes, place_words
from leakguard.render.text import COUNTED_BY
from leakguard.render.wording import words
from leakguard.run_stats import DeviceStats, RunStats, SiteStats
from leakguard.units import format_bytes, format_duration, format_share
from leakguard.wording import plural

__all__ = ["site_sheet", "stats_sheets"]

SHOWN = 8


def stats_sheets(stats: RunStats, folder: str | None) -> tuple[Sheet, ...]:
    """The run, its devices, its call sites."""
    command = words(stats.command or "not known")
    sheets = [Sheet("run", ("command", command), tuple(_facts(stats)), words_last=True)]
    if stats.devices:
        columns = ("device", "peak", "in step", "most born", "in step", "at end", "a step")
        rows = tuple(row for row in map(_device, stats.devices) if set(row[1:]) != {"-"})
        sheets.append(Sheet("memory", columns, rows))
    if stats.sites:
        sheets.append(site_sheet("call sites", stats.sites, folder))
    return tuple(sheets)


def site_sheet(title: str, sites: tuple[SiteStats, ...], folder: str | None, shown: int = SHOWN) -> Sheet:
    """Call sites, the rest of them in one row."""
    several = len({site.device for site in sites}) > 1
    rows = [
        (*_figures(site), (f"{words(site.device)}   " if several else "") + place_words(site.place, folder))
        for site in sites[:shown]
    ]
    rest = sites[shown:]
    if rest:
        blocks = sum(site.blocks for site in rest)
        total = format_bytes(sum(site.bytes for site in rest))
        rows.append((total, str(blocks), "", plural(len(rest), "other call site")))
    return Sheet(title, ("alive", "blocks", "a step", "call site"), tuple(rows), words_last=True)


def _facts(stats: RunStats) -> list[tuple[str, str]]:
    counted = f" ({COUNTED_BY[stats.steps.source]})" if stats.steps.source else ""
    facts = [
        (
            "status",
            f"{stats.status}, {plural(stats.findings, 'finding')}" if stats.findings else stats.status,
        ),
        ("steps", f"{stats.steps.count}{counted}"),
    ]
    if stats.seconds is not None and stats.timed and stats.slowest is not None:
        average = format_duration(stats.seconds / stats.timed)
        facts += [
            ("time", format_duration(stats.seconds)),
            ("a step", average),
            ("slowest step", f"{format_duration(stats.slowest)}, step {stats.slowest_step}"),
        ]
    cost = stats.overhead
    facts += [
        (
            "cost of watching",
            f"{format_duration(cost.seconds)}, {format_share(cost.fraction)}, {format_bytes(cost.host_bytes)}",
        ),
        ("torch, python", f"{words(stats.torch) or '-'}, {words(stats.python) or '-'}"),
    ]
    return facts


def _device(one: DeviceStats) -> tuple[str, ...]:
    return (
        words(one.device),
        _size(one.peak),
        _number(one.peak_step),
        _size(one.most_consumed),
        _number(one.most_consumed_step),
        _size(one.allocated),
        changed_bytes(one.bytes_per_step),
    )


def _figures(site: SiteStats) -> tuple[str, ...]:
    return format_bytes(site.bytes), str(site.blocks), changed_bytes(site.bytes_per_step)


def _size(size: int | None) -> str:
    return "-" if size is None else format_bytes(size)


def _number(number: int | None) -> str:
    return "-" if number is None else str(number)
