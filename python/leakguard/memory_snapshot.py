"""What memory is in use at one moment, by device and by what made it, as a plain value.

Bytes of live blocks are what the allocator set aside for them where it says so (CUDA), else what was requested; so
they add up to the allocator's own figures. Made by `Guard.snapshot`; read, saved and shown without torch.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakguard.records import from_plain, to_plain
from leakguard.report import Place
from leakguard.shown import as_printed

__all__ = [
    "CategoryChange",
    "CategoryMemory",
    "Counter",
    "DeviceMemory",
    "GroupChange",
    "LiveGroup",
    "Snapshot",
    "SnapshotDiff",
]

Key = tuple[str, str, Place]


@dataclass(frozen=True, kw_only=True, slots=True)
class Counter:
    """One of the allocator's figures: `allocated`, `active`, `requested`, `reserved` or `inactive split` bytes, of
    all its blocks or of those in the `large` or `small` pool. None where it keeps no such figure."""

    name: str
    pool: str = "all"
    current: int
    peak: int | None = None
    total_allocated: int | None = None
    total_freed: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceMemory:
    """One device. `outside_allocator_bytes` are in use on it and not the allocator's, other processes' included."""

    device: str
    counters: tuple[Counter, ...] = ()
    outside_allocator_bytes: int | None = None

    def current(self, name: str, pool: str = "all") -> int | None:
        """A counter's present value; None where there is none."""
        return next((one.current for one in self.counters if (one.name, one.pool) == (name, pool)), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveGroup:
    """Blocks made at one place that are the same thing: `category` is `parameter`, `buffer`, `gradient`,
    `optimizer_state`, `activation`, `input`, `autograd_detail`, `temporary` or `unknown`.

    `pending` ones are given back already, but a stream still uses them; those in a `private_pool` belong to a captured
    graph or a MemPool. `holder` and `shape` are known where they were asked for. `keys` are each block's address, birth
    and bytes, by which two snapshots of one process are compared."""

    device: str
    place: Place
    category: str = "unknown"
    requested_bytes: int
    pending: bool = False
    private_pool: bool = False
    holder: str | None = None
    shape: str | None = None
    keys: tuple[tuple[int, ...], ...]

    @property
    def bytes(self) -> int:
        """What is set aside for the blocks."""
        return sum(size for *_, size in self.keys)

    @property
    def blocks(self) -> int:
        """How many there are."""
        return len(self.keys)


@dataclass(frozen=True, kw_only=True, slots=True)
class CategoryMemory:
    """Live blocks of one category on one device."""

    device: str
    category: str
    bytes: int
    blocks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The live memory after `step` steps; groups with most bytes first."""

    step: int
    devices: tuple[DeviceMemory, ...] = ()
    groups: tuple[LiveGroup, ...] = ()

    def of(self, device: str) -> tuple[LiveGroup, ...]:
        """The groups of one device."""
        return tuple(group for group in self.groups if group.device == device)

    def by_category(self) -> tuple[CategoryMemory, ...]:
        """What is alive by device and category, most bytes first."""
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        for group in self.groups:
            size, blocks = sums.get((group.device, group.category), (0, 0))
            sums[group.device, group.category] = (size + group.bytes, blocks + group.blocks)
        found = [
            CategoryMemory(device=device, category=category, bytes=size, blocks=blocks)
            for (device, category), (size, blocks) in sums.items()
        ]
        return tuple(sorted(found, key=lambda one: (-one.bytes, one.device, one.category)))

    def diff(self, later: Snapshot) -> SnapshotDiff:
        """What was born, died and survived from this snapshot to a later one of the same process. A survivor that has
        become something else, as a tensor that is made a parameter, is what it is later."""
        after = _blocks(later)
        before = _blocks(self, {key: made for made, found in after.items() for key in found})
        changes = []
        survived_bytes = survived_blocks = 0
        for made in {**before, **after}:
            device, category, place = made
            old, new = before.get(made, {}), after.get(made, {})
            born, died = new.keys() - old.keys(), old.keys() - new.keys()
            stayed = old.keys() & new.keys()
            survived_blocks += len(stayed)
            survived_bytes += sum(new[key] for key in stayed)
            if born or died:
                changes.append(
                    GroupChange(
                        device=device,
                        place=place,
                        category=category,
                        born_bytes=sum(new[key] for key in born),
                        born_blocks=len(born),
                        died_bytes=sum(old[key] for key in died),
                        died_blocks=len(died),
                        survived_bytes=sum(new[key] for key in stayed),
                        survived_blocks=len(stayed),
                    )
                )
        changes.sort(key=lambda change: (-abs(change.bytes), -change.born_bytes))
        return SnapshotDiff(
            from_step=self.step,
            to_step=later.step,
            groups=tuple(changes),
            survived_bytes=survived_bytes,
            survived_blocks=survived_blocks,
        )

    def to_dict(self) -> dict[str, Any]:
        """The snapshot in plain dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Snapshot:
        """The snapshot that `to_dict` described. Raises RecordError when `data` is none."""
        return from_plain(cls, data)

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        from leakguard.render.sheet_text import to_text

        return to_text(self, encoding=getattr(sys.stdout, "encoding", None))

    def _repr_html_(self) -> str:
        from leakguard.render.sheet_html import to_html

        return to_html(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupChange:
    """What one place made of one category, gave back and kept between two snapshots."""

    device: str
    place: Place
    category: str = "unknown"
    born_bytes: int
    born_blocks: int
    died_bytes: int
    died_blocks: int
    survived_bytes: int
    survived_blocks: int

    @property
    def bytes(self) -> int:
        """More, or less when negative."""
        return self.born_bytes - self.died_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class CategoryChange:
    """What became more and less of one category on one device between two snapshots."""

    device: str
    category: str
    born_bytes: int
    born_blocks: int
    died_bytes: int
    died_blocks: int

    @property
    def bytes(self) -> int:
        """More, or less when negative."""
        return self.born_bytes - self.died_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotDiff:
    """The difference of two snapshots, largest change first; places at which nothing was born or died are left out,
    but what survived at them is in the sums."""

    from_step: int
    to_step: int
    groups: tuple[GroupChange, ...] = ()
    survived_bytes: int = 0
    survived_blocks: int = 0

    @property
    def bytes(self) -> int:
        """More in all, or less when negative."""
        return sum(group.bytes for group in self.groups)

    def by_category(self) -> tuple[CategoryChange, ...]:
        """The changes by device and category, the largest first."""
        sums: dict[tuple[str, str], list[GroupChange]] = {}
        for group in self.groups:
            sums.setdefault((group.device, group.category), []).append(group)
        found = [
            CategoryChange(
                device=device,
                category=category,
                born_bytes=sum(group.born_bytes for group in groups),
                born_blocks=sum(group.born_blocks for group in groups),
                died_bytes=sum(group.died_bytes for group in groups),
                died_blocks=sum(group.died_blocks for group in groups),
            )
            for (device, category), groups in sums.items()
        ]
        return tuple(
            sorted(found, key=lambda one: (-abs(one.bytes), -one.born_bytes, one.device, one.category))
        )

    def to_dict(self) -> dict[str, Any]:
        """The difference in plain dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        from leakguard.render.sheet_text import to_text

        return to_text(self, encoding=getattr(sys.stdout, "encoding", None))

    def _repr_html_(self) -> str:
        from leakguard.render.sheet_html import to_html

        return to_html(self)


def _blocks(
    snapshot: Snapshot, known: Mapping[tuple[int, int], Key] | None = None
) -> dict[Key, dict[tuple[int, int], int]]:
    """Bytes of each block, by its (device, category, place) and by its address and birth. `known` says of some blocks
    where they belong."""
    found: dict[Key, dict[tuple[int, int], int]] = {}
    for group in snapshot.groups:
        own = (group.device, group.category, group.place)
        for address, birth, size in group.keys:
            made = known.get((address, birth), own) if known else own
            found.setdefault(made, {})[address, birth] = size
    return found
