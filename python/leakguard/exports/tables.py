"""CSV, as RFC 4180 has it, with a header: the steps, and the call sites of live memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import fields

from leakguard.exports.parts import clean, live_groups, step_table
from leakguard.recording import Recording
from leakguard.step_table import StepRow

__all__ = ["sites_csv", "steps_csv"]

STEP_COLUMNS = tuple(field.name for field in fields(StepRow))
PLACE_COLUMNS = ("file", "line", "function", "expression", "module", "phase", "op", "via")
SITE_COLUMNS = (
    "device", "category", "bytes", "requested_bytes", "blocks", "pending", "private_pool", *PLACE_COLUMNS,
)  # fmt: skip


def steps_csv(recording: Recording) -> bytes:
    """One row a step and device. Raises ReportError without steps."""
    return _table(
        STEP_COLUMNS, ([getattr(row, name) for name in STEP_COLUMNS] for row in step_table(recording).rows)
    )


def sites_csv(recording: Recording) -> bytes:
    """One row a call site of live blocks, most bytes first. Raises ReportError without live memory."""
    rows = []
    for group in live_groups(recording):
        own = [getattr(group, name) for name in SITE_COLUMNS[: -len(PLACE_COLUMNS)]]
        rows.append(own + [getattr(group.place, name) for name in PLACE_COLUMNS])
    return _table(SITE_COLUMNS, rows)


def _table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow(_cell(value) for value in row)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return clean(value) if isinstance(value, str) else value
