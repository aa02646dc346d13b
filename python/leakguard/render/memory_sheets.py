"""A snapshot of live memory and the difference of two, laid out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from leakguard.memory_snapshot import (
    CategoryChange,
    Counter,
    DeviceMemory,
    GroupChange,
    LiveGroup,
    Snapshot,
    SnapshotDiff,
)
from leakguard.render.sheet import Sheet, category_words, changed_bytes, changed_count, place_words
from leakguard.render.wording import words
from leakguard.units import format_bytes, format_share
from leakguard.wording import plural

__all__ = ["memory_diff_sheets", "memory_sheets"]

SHOWN = 12
SMALL = 0.01
"""Places with less than this share of a device's live bytes are shown together."""

FIGURES: dict[str, Callable[[Counter], int | None]] = {
    "current": lambda one: one.current,
    "peak": lambda one: one.peak,
    "allocated in all": lambda one: one.total_allocated,
    "freed in all": lambda one: one.total_freed,
}
"""The columns of a device's counters; one without any figure is left out."""


def memory_sheets(snapshot: Snapshot, folder: str | None, *, watched: bool = True) -> tuple[Sheet, ...]:
    """For each device what its allocator says, then what is alive by category, call site, module, and phase.
    `watched` says whether leakguard made the snapshot: others know neither steps nor categories."""
    sheets = []
    for memory in snapshot.devices:
        groups = snapshot.of(memory.device)
        device = words(memory.device)
        sheets.append(_counters(memory, groups, snapshot.step if watched else None))
        if not groups:
            continue
        if watched:
            sheets.append(
                _shares(
                    f"{device}, alive by category",
                    "category",
                    groups,
                    lambda g: category_words(g.category),
                    hide_small=False,
                )
            )
        sheets.append(
            _shares(
                f"{device}, alive by call site", "call site", groups, lambda g: place_words(g.place, folder)
            )
        )
        if any(group.place.module for group in groups):
            sheets.append(
                _shares(
                    f"{device}, alive by module", "module", groups, lambda g: words(g.place.module or "none")
                )
            )
        sheets.append(_shares(f"{device}, alive by phase", "phase", groups, lambda g: words(g.place.phase)))
        if any(group.holder for group in groups):
            sheets.append(
                _shares(f"{device}, alive by shape", "shape", groups, lambda g: words(g.shape or "unknown"))
            )
            sheets.append(
                _shares(
                    f"{device}, alive by holder",
                    "holder",
                    groups,
                    lambda g: words(g.holder or "not looked up"),
                )
            )
    return tuple(sheets) or (Sheet("memory", note="no device has been used yet"),)


def memory_diff_sheets(diff: SnapshotDiff, folder: str | None) -> tuple[Sheet, ...]:
    """Born, died and survived, by call site; and what became of each category."""
    counted = diff.from_step or diff.to_step
    title = (
        f"from step {diff.from_step} to step {diff.to_step}" if counted else "from the first to the second"
    )
    survived = f"{format_bytes(diff.survived_bytes)} in {plural(diff.survived_blocks, 'block')} survived"
    if not diff.groups:
        return (Sheet(title, note=f"nothing was born and nothing died, {survived}"),)
    sheets = [Sheet(title, note=f"{changed_bytes(diff.bytes)}, {survived}")]
    for device in dict.fromkeys(group.device for group in diff.groups):
        groups = [group for group in diff.groups if group.device == device]
        kinds = [one for one in diff.by_category() if one.device == device]
        if any(one.category != "unknown" for one in kinds):
            sheets.append(_category_changes(device, kinds))
        rows = [(*_change([group]), _change_words(group, folder)) for group in groups[:SHOWN]]
        if groups[SHOWN:]:
            rows.append((*_change(groups[SHOWN:]), plural(len(groups[SHOWN:]), "other call site")))
        columns = ("change", "blocks", "born", "died", "survived", "call site")
        sheets.append(Sheet(f"{words(device)} by call site", columns, tuple(rows), words_last=True))
    return tuple(sheets)


def _category_changes(device: str, kinds: Iterable[CategoryChange]) -> Sheet:
    rows = tuple(
        (
            changed_bytes(one.bytes),
            *map(format_bytes, (one.born_bytes, one.died_bytes)),
            category_words(one.category),
        )
        for one in kinds
    )
    columns = ("change", "born", "died", "category")
    return Sheet(f"{words(device)} by category", columns, rows, words_last=True)


def _counters(memory: DeviceMemory, groups: Iterable[LiveGroup], step: int | None) -> Sheet:
    private = sum(group.bytes for group in groups if group.private_pool)
    notes = [] if step is None else [f"after {plural(step, 'step')}"]
    if private:
        notes.append(f"{format_bytes(private)} in private pools")
    if memory.outside_allocator_bytes is not None:
        notes.append(f"{format_bytes(memory.outside_allocator_bytes)} outside the allocator")
    columns = [("bytes", *map(_counter_name, memory.counters))]
    for name, figure in FIGURES.items():
        figures = [figure(one) for one in memory.counters]
        if figures == [None] * len(figures) and name != "current":
            continue
        columns.append((name, *("-" if value is None else format_bytes(value) for value in figures)))
    header, *rows = zip(*columns, strict=True)
    return Sheet(words(memory.device), header, tuple(rows), note=", ".join(notes))


def _counter_name(one: Counter) -> str:
    return words(one.name) if one.pool == "all" else f"  {words(one.pool)} pool"


def _shares(
    title: str,
    column: str,
    groups: Iterable[LiveGroup],
    name: Callable[[LiveGroup], str],
    hide_small: bool = True,
) -> Sheet:
    sums: dict[str, tuple[int, int]] = {}
    for group in groups:
        label = name(group) + ("   private pool" if group.private_pool else "")
        if group.pending:
            label += "   waits for a stream"
        size, blocks = sums.get(label, (0, 0))
        sums[label] = (size + group.bytes, blocks + group.blocks)
    whole = sum(size for size, _ in sums.values())
    ordered = sorted(sums.items(), key=lambda item: -item[1][0])
    shown = [item for item in ordered[:SHOWN] if item[1][0] >= whole * SMALL]
    if not hide_small or len(shown) == len(ordered) - 1:  # one row is no shorter for hiding its name
        shown = ordered
    rest = ordered[len(shown) :]
    if rest:
        together = (sum(size for _, (size, _) in rest), sum(blocks for _, (_, blocks) in rest))
        shown.append((plural(len(rest), f"smaller {column}"), together))
    rows = tuple(
        (format_bytes(size), format_share(size / whole if whole else 0.0), str(blocks), label)
        for label, (size, blocks) in shown
    )
    return Sheet(title, ("bytes", "share", "blocks", column), rows, words_last=True, note=format_bytes(whole))


def _change_words(group: GroupChange, folder: str | None) -> str:
    place = place_words(group.place, folder)
    return place if group.category == "unknown" else f"{place}   {category_words(group.category)}"


def _change(groups: list[GroupChange]) -> tuple[str, ...]:
    return (
        changed_bytes(sum(group.bytes for group in groups)),
        changed_count(sum(group.born_blocks - group.died_blocks for group in groups)),
        format_bytes(sum(group.born_bytes for group in groups)),
        format_bytes(sum(group.died_bytes for group in groups)),
        format_bytes(sum(group.survived_bytes for group in groups)),
    )
