"""All that is known of one run, as one plain value: what pages, files and comparisons of runs are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakguard.capture_file import is_capture
from leakguard.capture_reading import read_parts
from leakguard.memory_snapshot import Snapshot
from leakguard.records import from_plain, to_plain
from leakguard.report import Finding, Report, load
from leakguard.step_table import StepDiff, StepTable

__all__ = ["MOST_SITES", "Recording", "SourceLines", "load_recording", "named_places"]

MOST_SITES = 50
"""Call sites whose growth a recording tells."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLines:
    """Lines of a file around a place that a finding names, as the file was when the run was watched: `lines[0]` is
    line `first` of `file`."""

    file: str
    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """One run: its report, what each step did, and the live memory at the end. What is not known is None or empty: a
    report file has neither steps nor memory.

    `growth` is what call sites have more at the end than when the warm-up was over, those that changed most: MOST_SITES
    at most. `command` is what was run, for a
    title; `began` is when, in seconds since 1970.
    """

    report: Report
    table: StepTable | None = None
    snapshot: Snapshot | None = None
    sources: tuple[SourceLines, ...] = ()
    command: str | None = None
    began: float | None = None
    growth: StepDiff | None = None

    def to_dict(self) -> dict[str, Any]:
        """The recording in plain dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = to_plain(self) | {"report": self.report.to_dict()}
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recording:
        """The recording that `to_dict` described. Raises RecordError when `data` is none."""
        return from_plain(cls, data)

    def to_html(
        self, *, before: Recording | None = None, source: bool = True, folder: str | None = None
    ) -> str:
        """The recording as one page that needs no other file. With `before` it shows what differs from that earlier
        recording; without `source` it has no text of the program, for sharing. Paths inside `folder`, by default the
        working folder, are shown relative to it."""
        from leakguard.render.html import to_html

        return to_html(self, before=before, source=source, folder=folder)


def named_places(finding: Finding) -> tuple[tuple[str, int], ...]:
    """The (file, line) of the births and holders of a finding, each once, where it is born first."""
    born = ((place.file, place.line) for place in (finding.allocated_at, *finding.also_born_at))
    held = ((link.file, link.line) for link in finding.retained_by)
    return tuple(
        dict.fromkeys((file, line) for file, line in (*born, *held) if file is not None and line is not None)
    )


def load_recording(path: str | Path) -> Recording:
    """What `path` holds: a capture, also of a run that goes on or was killed, or a report file. Raises ReportError
    when it cannot be read."""
    if not is_capture(path):
        return Recording(report=load(path))
    parts = read_parts(path)
    sources = tuple(
        SourceLines(file=file, first=first, lines=tuple(text.split("\n")))
        for file, first, text in parts.pop("sources")
    )
    return Recording(**parts, sources=sources)
