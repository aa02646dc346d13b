"""Two reports compared: what has come, what has gone, and what the same causes cost before and after."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakguard.records import from_plain, to_plain
from leakguard.report import Finding, Place, Report
from leakguard.shown import as_printed

__all__ = ["CategoryDifference", "Changed", "FindingChange", "ReportDiff", "SiteDifference", "compare"]

RATE_TOLERANCE = 0.05
"""Rates that differ by less are the same: two runs of one program seldom agree to the byte."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """A fact of both runs that differs: a version, the status, where steps were found."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingChange:
    """A finding of one run or of both, matched by fingerprint; None in the run that lacks it."""

    before: Finding | None = None
    after: Finding | None = None

    @property
    def either(self) -> Finding:
        """The finding, of the later run where it has it."""
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def bytes_per_step(self) -> float:
        """How much more it grows in a step, or less when negative."""
        after, before = self.after, self.before
        return (after.bytes_per_step if after else 0.0) - (before.bytes_per_step if before else 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteDifference:
    """A call site of one run or of both: bytes alive at the end, and bytes more in each step; None in the run that
    lacks it, or where it is not known."""

    device: str
    place: Place
    before: int | None = None
    after: int | None = None
    before_rate: float | None = None
    after_rate: float | None = None

    @property
    def bytes(self) -> int:
        """How much more is alive at the end, or less when negative."""
        return (self.after or 0) - (self.before or 0)

    @property
    def rate(self) -> float | None:
        """How much more it grows in a step; None when neither run tells."""
        if self.before_rate is None and self.after_rate is None:
            return None
        return (self.after_rate or 0.0) - (self.before_rate or 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class CategoryDifference:
    """Bytes of one category that were alive at the end."""

    device: str
    category: str
    before: int
    after: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportDiff:
    """What differs between two runs: facts, then findings, the largest change first. `same` counts the findings that
    are in both and grow alike. Of recordings also call sites and categories, the largest change first."""

    facts: tuple[Changed, ...] = ()
    findings: tuple[FindingChange, ...] = ()
    same: int = 0
    sites: tuple[SiteDifference, ...] = ()
    categories: tuple[CategoryDifference, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The comparison in plain dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReportDiff:
        """The comparison that `to_dict` described. Raises RecordError when `data` is none."""
        return from_plain(cls, data)

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        from leakguard.render.sheet_text import to_text

        return to_text(self, encoding=getattr(sys.stdout, "encoding", None))

    def _repr_html_(self) -> str:
        from leakguard.render.sheet_html import to_html

        return to_html(self)


def compare(before: Report, after: Report) -> ReportDiff:
    """What differs from `before` to `after`; empty for a report and itself."""
    old = {finding.fingerprint: finding for finding in before.findings}
    new = {finding.fingerprint: finding for finding in after.findings}
    changes = []
    same = 0
    for fingerprint in {**old, **new}:
        change = FindingChange(before=old.get(fingerprint), after=new.get(fingerprint))
        if change.before and change.after and _alike(change.before, change.after):
            same += 1
        else:
            changes.append(change)
    changes.sort(key=lambda change: (-abs(change.bytes_per_step), change.either.fingerprint))
    return ReportDiff(facts=tuple(_facts(before, after)), findings=tuple(changes), same=same)


def _alike(one: Finding, other: Finding) -> bool:
    """Whether two runs say the same of a cause: total sizes, lines and step numbers may differ."""
    return (one.verdict, one.category) == (other.verdict, other.category) and all(
        math.isclose(a, b, rel_tol=RATE_TOLERANCE)
        for a, b in (
            (one.bytes_per_step, other.bytes_per_step),
            (one.blocks_per_step, other.blocks_per_step),
        )
    )


def _facts(before: Report, after: Report) -> list[Changed]:
    pairs = [
        (name, getattr(before, name), getattr(after, name))
        for name in ("status", "leakguard", "torch", "python")
    ]
    pairs.append(("steps found by", before.steps.source, after.steps.source))
    return [
        Changed(name=name, before=str(old or "-"), after=str(new or "-"))
        for name, old, new in pairs
        if old != new
    ]
