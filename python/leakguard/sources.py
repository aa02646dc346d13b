"""Lines of source around the places that a report names, read while the files are still as they ran."""

from __future__ import annotations

import linecache
from collections.abc import Iterable

from leakguard.recording import SourceLines, named_places
from leakguard.report import Finding

__all__ = ["sources_of"]

AROUND = 4
"""Lines before and after a named one."""

MOST_PLACES = 64
LONGEST_LINE = 240


def sources_of(findings: Iterable[Finding]) -> tuple[SourceLines, ...]:
    """The lines around the births and holders of `findings`; one piece where places are close together. A file that
    cannot be read is left out."""
    wanted: dict[str, list[int]] = {}
    places = dict.fromkeys(place for finding in findings for place in named_places(finding))
    for file, line in list(places)[:MOST_PLACES]:
        wanted.setdefault(file, []).append(line)
    pieces = []
    for file, lines in wanted.items():
        text = linecache.getlines(file)
        for first, last in _spans(sorted(set(lines)), len(text)):
            shown = tuple(line.rstrip("\r\n")[:LONGEST_LINE] for line in text[first - 1 : last])
            pieces.append(SourceLines(file=file, first=first, lines=shown))
    return tuple(pieces)


def _spans(lines: list[int], length: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for line in lines:
        if not 0 < line <= length:
            continue
        first, last = max(line - AROUND, 1), min(line + AROUND, length)
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return spans
