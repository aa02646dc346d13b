"""One step seen from inside, as a plain value: what was alive at its moments and at its peak, by category and module.

Made by `Guard.sample_step`; read, saved and shown without torch.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakguard.records import from_plain, to_plain

__all__ = ["Moment", "MomentMemory", "StepSample"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MomentMemory:
    """Live blocks of one category and one module on one device; `bytes` as they were requested."""

    device: str
    category: str
    module: str | None = None
    bytes: int
    blocks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """What was alive at `step begin`, `after forward`, `mid-backward` or `step end`, or at the `peak`, which each
    device has at a moment of its own. Where a moment came several times, the one with most bytes."""

    name: str
    memory: tuple[MomentMemory, ...] = ()

    def bytes_of(self, device: str, category: str | None = None) -> int:
        """Bytes on a device, of one category or of all."""
        return sum(
            one.bytes for one in self.memory if one.device == device and category in (None, one.category)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSample:
    """One step. `missed_events` births and deaths found no room in the record: then the peak may be another."""

    step: int
    moments: tuple[Moment, ...] = ()
    missed_events: int = 0

    def moment(self, name: str) -> Moment | None:
        """The moment of that name; None when it did not come."""
        return next((one for one in self.moments if one.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """The sample in plain dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StepSample:
        """The sample that `to_dict` described. Raises RecordError when `data` is none."""
        return from_plain(cls, data)

    def __str__(self) -> str:
        from leakguard.render.sheet_text import to_text

        return to_text(self, encoding=getattr(sys.stdout, "encoding", None))

    def _repr_html_(self) -> str:
        from leakguard.render.sheet_html import to_html

        return to_html(self)
