"""A memory snapshot of torch's, laid out."""

from __future__ import annotations

from leakguard.render.memory_sheets import SHOWN, memory_sheets
from leakguard.render.sheet import Sheet, place_words
from leakguard.render.wording import words
from leakguard.torch_snapshot import History, TorchSnapshot
from leakguard.units import format_bytes, format_duration, format_share
from leakguard.wording import plural

__all__ = ["torch_snapshot_sheets"]


def torch_snapshot_sheets(snapshot: TorchSnapshot, folder: str | None) -> tuple[Sheet, ...]:
    """Live memory, then reserved memory, private pools, what may be growing, and what is not known."""
    sheets = list(memory_sheets(snapshot.memory, folder, watched=False))
    if snapshot.reserved:
        sheets.append(_reserved(snapshot))
    if snapshot.pools:
        sheets.append(_pools(snapshot))
    if snapshot.growing:
        sheets.append(_growing(snapshot, folder))
    sheets += map(_history, snapshot.histories)
    if snapshot.settings:
        sheets.append(Sheet("allocator settings", note=words(", ".join(snapshot.settings))))
    return tuple(sheets)


def _reserved(snapshot: TorchSnapshot) -> Sheet:
    rows = tuple(
        (
            words(one.device),
            str(one.segments)
            + (f", {one.expandable_segments} expandable" if one.expandable_segments else ""),
            format_bytes(one.reserved_bytes),
            format_bytes(one.free_bytes),
            format_bytes(one.largest_free[0]) if one.largest_free else "-",
            format_share(one.fragmentation),
        )
        for one in snapshot.reserved
    )
    return Sheet(
        "reserved memory", ("", "segments", "reserved", "free", "largest free piece", "fragmentation"), rows
    )


def _pools(snapshot: TorchSnapshot) -> Sheet:
    rows = tuple(
        (
            f"{words(one.device)} pool {words(one.pool)}",
            str(one.segments),
            format_bytes(one.reserved_bytes),
            format_bytes(one.allocated_bytes),
        )
        for one in snapshot.pools
    )
    return Sheet("private pools", ("", "segments", "reserved", "allocated"), rows)


def _growing(snapshot: TorchSnapshot, folder: str | None) -> Sheet:
    rows = tuple(
        (
            format_bytes(one.bytes),
            str(one.blocks),
            f"{one.tenths} of 10",
            place_words(snapshot.memory.groups[one.group].place, folder),
        )
        for one in snapshot.growing[:SHOWN]
    )
    return Sheet(
        "may be growing",
        ("bytes", "blocks", "tenths", "call site"),
        rows,
        words_last=True,
        note="live blocks born in most tenths of the history: a leak, or a buffer that fills",
    )


def _history(history: History) -> Sheet:
    title = f"{words(history.device)}, history"
    said = []
    if not history.events:
        said.append(
            "none: torch.cuda.memory._record_memory_history() was not on, or its events were not kept"
        )
    else:
        length = "" if history.seconds is None else f" in {format_duration(history.seconds)}"
        said.append(
            f"{plural(history.events, 'event')}{length}: {plural(history.births, 'birth')}, "
            f"{plural(history.frees, 'free')}"
        )
        if history.out_of_memory:
            said.append(f"out of memory {plural(history.out_of_memory, 'time')}")
        if history.frees_unexplained or history.unborn_blocks:
            said.append(
                "it begins late: recording was switched on later, or more than max_entries events came; "
                f"{plural(history.frees_unexplained, 'free')} and {plural(history.unborn_blocks, 'live block')} "
                f"({format_bytes(history.unborn_bytes)}) are of blocks born before it"
            )
    if history.placeless_blocks:
        said.append(
            f"{plural(history.placeless_blocks, 'live block')} ({format_bytes(history.placeless_bytes)}) "
            "without a Python line"
        )
    return Sheet(title, note="; ".join(said))
