"""What a `torch.cuda.memory._dump_snapshot` pickle says, as a plain value: live memory by call site, how reserved
memory is cut up, and how much history there is.

Read, saved and shown without torch. The dictionaries differ between torch versions; what a version does not say is
None or empty here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leakguard.memory_snapshot import Snapshot, SnapshotDiff
from leakguard.records import from_plain, to_plain
from leakguard.report_file import ReportError

__all__ = [
    "Growing",
    "History",
    "PrivatePool",
    "Reserved",
    "TorchSnapshot",
    "is_torch_snapshot",
    "load_torch_snapshot",
]

FIRST_BYTE = b"\x80"
"""Of every pickle since protocol 2; neither JSON nor a capture begins with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserved:
    """How one device's reserved memory is cut up. `largest_free` are the largest free pieces, in bytes;
    `fragmentation` is 1 - largest free piece / free bytes."""

    device: str
    segments: int
    expandable_segments: int = 0
    reserved_bytes: int
    free_bytes: int
    largest_free: tuple[int, ...] = ()
    fragmentation: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivatePool:
    """Memory set aside for a captured graph or a MemPool, which no other allocation can use."""

    device: str
    pool: str
    segments: int
    reserved_bytes: int
    allocated_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """The events that the snapshot holds of one device. torch keeps the last `max_entries` of them.

    `frees_unexplained` are frees of blocks whose birth it does not hold, `unborn_blocks` and `unborn_bytes` are
    live and likewise; `placeless_bytes` are live and have no stack. `seconds` is from the first event to the last.
    """

    device: str
    events: int
    births: int = 0
    frees: int = 0
    out_of_memory: int = 0
    seconds: float | None = None
    frees_unexplained: int = 0
    unborn_blocks: int = 0
    unborn_bytes: int = 0
    placeless_blocks: int = 0
    placeless_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Growing:
    """A call site (a group of `memory`, by its number) whose live blocks were born in most tenths of the history, the
    last ones included. It may be a leak, or a buffer that is filling: torch's history cannot tell."""

    group: int
    blocks: int
    bytes: int
    tenths: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchSnapshot:
    """One pickle. `settings` are the allocator's, as `name=value`, those that are set."""

    memory: Snapshot
    reserved: tuple[Reserved, ...] = ()
    pools: tuple[PrivatePool, ...] = ()
    histories: tuple[History, ...] = ()
    growing: tuple[Growing, ...] = ()
    settings: tuple[str, ...] = ()

    def diff(self, later: TorchSnapshot) -> SnapshotDiff:
        """What was born, died and survived from this snapshot to a later one of the same process. A block whose birth
        the later history has lost is the one that was at its address before."""
        births = {
            (group.device, address): birth for group in self.memory.groups for address, birth, _ in group.keys
        }
        groups = tuple(
            replace(
                group,
                keys=tuple(
                    (address, birth or births.get((group.device, address), 0), size)
                    for address, birth, size in group.keys
                ),
            )
            for group in later.memory.groups
        )
        return self.memory.diff(replace(later.memory, groups=groups))

    def to_dict(self) -> dict[str, Any]:
        """The snapshot in plain dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TorchSnapshot:
        """The snapshot that `to_dict` described. Raises RecordError when `data` is none."""
        return from_plain(cls, data)

    def __str__(self) -> str:
        from leakguard.render.sheet_text import to_text

        return to_text(self, encoding=getattr(sys.stdout, "encoding", None))

    def _repr_html_(self) -> str:
        from leakguard.render.sheet_html import to_html

        return to_html(self)


def is_torch_snapshot(path: str | Path) -> bool:
    """Whether the file begins as a pickle. Raises ReportError when it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(1) == FIRST_BYTE
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error


def load_torch_snapshot(path: str | Path) -> TorchSnapshot:
    """The snapshot in a pickle of torch's. Raises ReportError when there is none; nothing in the file is executed."""
    from leakguard.torch_pickle import read_pickle
    from leakguard.torch_snapshot_reader import read_snapshot

    return read_snapshot(read_pickle(path), str(path))
