"""What the charts of a page are drawn from: columns of numbers and a table of names, as JSON that is safe in markup."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from leakguard.memory_snapshot import Snapshot
from leakguard.recording import Recording
from leakguard.render.sheet import category_words
from leakguard.render.wording import short_path, shorten, visible, words
from leakguard.report import Finding, Place
from leakguard.step_table import StepTable

__all__ = ["chart_data", "script_json"]

COLUMNS = (
    "first_step",
    "last_step",
    "trough",
    "peak",
    "allocated",
    "consumed",
    "survivors",
    "seconds",
    "reserved",
    "found",
)
PENDING, PRIVATE = 1, 2


class _Names:
    """Each string once; places refer to them by number."""

    def __init__(self, folder: str | None) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._folder = folder

    def number(self, text: str | None) -> int:
        """-1 for no text."""
        if not text:
            return -1
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]

    def place(self, place: Place) -> list[int]:
        """File, line, function, expression, module and phase."""
        return [
            self.number(short_path(place.file, self._folder) if place.file else None),
            place.line or 0,
            self.number(words(place.function or "")),
            self.number(shorten(visible(place.expression or ""), 120)),
            self.number(words(place.module or "")),
            self.number(words(place.phase)),
        ]


def chart_data(recording: Recording, before: Recording | None, folder: str | None) -> dict[str, Any]:
    """The steps by device, the live bytes by place, where findings begin; of `before` steps and live bytes."""
    names = _Names(folder)
    steps = recording.report.steps
    return {
        "warmup": steps.warmup,
        "series": _series(recording.table),
        "before": _series(before.table if before else None),
        "reserved": _reserved(recording),
        "groups": _groups(recording.snapshot, names),
        "earlier": _groups(before.snapshot if before else None, names),
        "findings": [_finding(one, names) for one in recording.report.findings],
        "strings": names.texts,
    }


def script_json(data: Any) -> str:
    """JSON for a script element: no character in it can end the element or begin another."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _series(table: StepTable | None) -> dict[str, dict[str, list[Any]]]:
    if table is None:
        return {}
    return {
        visible(device): {name: [getattr(row, name) for row in table.of(device)] for name in COLUMNS}
        for device in table.devices
    }


def _reserved(recording: Recording) -> dict[str, int]:
    """What each allocator has reserved at the end, where it says so."""
    found = {
        visible(one.device): one.reserved_bytes
        for one in recording.report.devices
        if one.reserved_bytes is not None
    }
    for memory in recording.snapshot.devices if recording.snapshot else ():
        reserved = memory.current("reserved")
        if reserved is not None:
            found[visible(memory.device)] = reserved
    return found


def _groups(snapshot: Snapshot | None, names: _Names) -> list[list[int]]:
    """Device, bytes, blocks, flags, category, and the place; groups that differ in nothing of it together."""
    sums: dict[tuple[int, ...], list[int]] = {}
    for group in snapshot.groups if snapshot else ():
        flags = PENDING * group.pending | PRIVATE * group.private_pool
        category = names.number(category_words(group.category))
        key = (names.number(visible(group.device)), flags, category, *names.place(group.place))
        entry = sums.setdefault(key, [0, 0])
        entry[0] += group.bytes
        entry[1] += group.blocks
    return [[device, size, blocks, *rest] for (device, *rest), (size, blocks) in sums.items()]


def _finding(finding: Finding, names: _Names) -> dict[str, Any]:
    return {
        "device": visible(finding.device),
        "title": words(finding.title),
        "counts": finding.verdict in ("growing", "no-owner", "waiting-for-gc", "bounded"),
        "first": finding.first_step,
        "places": list(_places((finding.allocated_at, *finding.also_born_at), names)),
    }


def _places(places: Iterable[Place], names: _Names) -> Iterable[list[int]]:
    for place in places:
        if place.file is not None:
            yield names.place(place)
