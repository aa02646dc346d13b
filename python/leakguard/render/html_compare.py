"""What differs between two recordings, for a page: verdicts, findings, steps, live bytes."""

from __future__ import annotations

from html import escape
from pathlib import PurePath

from leakguard.memory_snapshot import Snapshot
from leakguard.recording import Recording
from leakguard.render.html_sheets import sheets_markup
from leakguard.render.report_diff_sheets import report_diff_sheets
from leakguard.render.sheet import Sheet, changed_bytes, changed_count, place_words
from leakguard.render.text import count_steps
from leakguard.render.wording import visible, words
from leakguard.report import Place
from leakguard.report_diff import compare
from leakguard.units import format_bytes
from leakguard.wording import plural

__all__ = ["comparison"]

SITES_SHOWN = 20

Key = tuple[str, str, str, str, str]


def comparison(before: Recording, after: Recording, folder: str | None) -> str:
    """Two verdicts beside each other, then the tables of what differs."""
    sheets = report_diff_sheets(compare(before.report, after.report), folder)
    if before.snapshot is not None and after.snapshot is not None:
        sheets += _live_sheets(before.snapshot, after.snapshot, folder)
    cards = _card("before", before) + _card("after", after)
    return f'<div class="pair">{cards}</div>\n{sheets_markup(sheets)}'


def _card(name: str, recording: Recording) -> str:
    report = recording.report
    run = f'<p class="dim">{escape(visible(recording.command))}</p>' if recording.command else ""
    return (
        f'<article class="card"><p class="dim">{name}</p>'
        f'<p><span class="badge" data-status="{report.status}">{report.status.upper()}</span></p>'
        f"<p>{escape(words(report.why))}</p>{run}"
        f'<p class="dim">{escape(count_steps(report.steps))}, torch {escape(words(report.torch) or "not seen")}</p>'
        "</article>"
    )


def _live_sheets(before: Snapshot, after: Snapshot, folder: str | None) -> tuple[Sheet, ...]:
    """Live bytes at the end of both runs by call site, matched by file name, function and expression: a line may have
    moved, and a folder may be another."""
    old, new = _by_site(before), _by_site(after)
    nothing = (Place(), 0, 0)
    changes: list[tuple[int, int, int, int, str]] = []
    for key in {**old, **new}:
        _, old_size, old_blocks = old.get(key, nothing)
        place, new_size, new_blocks = new.get(key) or (old[key][0], 0, 0)
        if (old_size, old_blocks) != (new_size, new_blocks):
            where = f"{words(key[0])}   {place_words(place, folder)}"
            changes.append((new_size - old_size, new_blocks - old_blocks, old_size, new_size, where))
    if not changes:
        return (Sheet("alive at the end", note="the same bytes at the same call sites"),)
    changes.sort(key=lambda change: (-abs(change[0]), -abs(change[1])))
    rest = changes[SITES_SHOWN:]
    shown = changes[:SITES_SHOWN]
    if rest:
        size, blocks, was, became = (sum(column) for column in zip(*(one[:4] for one in rest), strict=True))
        shown.append((size, blocks, was, became, plural(len(rest), "other call site")))
    rows = tuple(
        (changed_bytes(size), changed_count(blocks), format_bytes(was), format_bytes(became), where)
        for size, blocks, was, became, where in shown
    )
    total = changed_bytes(sum(change[0] for change in changes))
    columns = ("change", "blocks", "before", "after", "call site")
    return (Sheet("alive at the end", columns, rows, words_last=True, note=total),)


def _by_site(snapshot: Snapshot) -> dict[Key, tuple[Place, int, int]]:
    sums: dict[Key, tuple[Place, int, int]] = {}
    for group in snapshot.groups:
        place = group.place
        key = (
            group.device,
            PurePath(place.file or "").name,
            place.function or "",
            place.expression or str(place.line),
            place.module or "",
        )
        _, size, blocks = sums.get(key, (place, 0, 0))
        sums[key] = (place, size + group.bytes, blocks + group.blocks)
    return sums
