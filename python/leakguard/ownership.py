"""Answers to "who keeps it", as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from leakguard.report import Example, Link, Place
from leakguard.shown import as_printed

__all__ = ["Owner", "Owners", "Why"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """What keeps one tensor alive.

    `bytes` is the size of its storage. `root` and `retained_by` lead to it by the nearest way; `retained_bytes` is what
    that holder gives back when it lets go, 0 when others (`also_held_by`, their roots) would keep it.
    `allocated_at` and `step` are None for a block born before anything was watched; steps count from 1.
    """

    device: str
    bytes: int
    example: Example
    held: bool
    root: str
    retained_by: tuple[Link, ...]
    retained_bytes: int
    also_held_by: tuple[str, ...] = ()
    allocated_at: Place | None = None
    step: int | None = None

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        from leakguard.render.why_text import why_text

        return why_text(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """One holder, and what is nearest to it: blocks and bytes that are reached from it first."""

    device: str
    holder: str
    bytes: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Owners:
    """Live blocks by holder, most bytes first. `left_out` counts smaller blocks that were not asked for."""

    rows: tuple[Owner, ...]
    left_out: int = 0

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        from leakguard.render.why_text import owners_text

        return owners_text(self)
