"""What several formats take from a recording."""

from __future__ import annotations

import re
from typing import NamedTuple

from leakguard.memory_snapshot import LiveGroup, Snapshot
from leakguard.recording import Recording
from leakguard.report import Place
from leakguard.report_file import ReportError
from leakguard.step_table import StepTable

__all__ = ["Frame", "clean", "frames_of", "live_groups", "live_snapshot", "step_table"]

_VIA = re.compile(r"(?P<file>.+):(?P<line>\d+) in (?P<function>.+)", re.DOTALL)


class Frame(NamedTuple):
    """A line of code. Line 0 is an unknown one."""

    file: str
    line: int
    function: str


def live_snapshot(recording: Recording) -> Snapshot:
    """The live memory. Raises ReportError when the recording does not have it."""
    if recording.snapshot is None:
        raise ReportError(
            "it does not tell what memory is in use: a report knows findings only. "
            "Make a capture with: python -m leakguard run -o run.leakguard SCRIPT"
        )
    return recording.snapshot


def live_groups(recording: Recording) -> tuple[LiveGroup, ...]:
    """The groups of live blocks, most bytes first. Raises ReportError likewise."""
    return live_snapshot(recording).groups


def step_table(recording: Recording) -> StepTable:
    """The steps. Raises ReportError when the recording does not have them."""
    if recording.table is None:
        raise ReportError(
            "it does not tell what single steps did. "
            "Make a capture with: python -m leakguard run -o run.leakguard SCRIPT"
        )
    return recording.table


def frames_of(place: Place) -> tuple[Frame, ...]:
    """The frames that are known of a place, from the inside out: the library's, then the user's."""
    own = Frame(
        clean(place.file or "unknown"), place.line or 0, clean(place.function or place.op or "unknown")
    )
    via = _VIA.fullmatch(place.via or "")
    if via is None:
        return (own,)
    return (Frame(clean(via["file"]), int(via["line"]), clean(via["function"])), own)


def clean(text: str) -> str:
    """The text without what UTF-8 cannot write: names of files need not be text."""
    return text.encode("utf-8", "backslashreplace").decode()
