"""What a capture file holds, as the values that it was written from."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from leakguard.capture_file import opened, report_in, run_in, steps_in
from leakguard.memory_snapshot import Snapshot
from leakguard.report import Place, Report, Steps
from leakguard.report_file import ReportError
from leakguard.step_table import SiteChange, StepDiff, StepRow, StepTable

__all__ = ["read_parts"]


def read_parts(path: str | Path) -> dict[str, Any]:
    """The fields of a Recording, sources as (file, first line, text). Raises ReportError when the file cannot be
    read."""
    with opened(path) as connection:
        run = run_in(connection)
        report = Report.from_dict(report_in(connection), origin=str(path))
        try:
            return {
                "report": report,
                "table": StepTable(steps=_steps(connection, report), rows=_rows(connection)),
                "snapshot": _snapshot(connection),
                "growth": _growth(connection, run),
                "sources": list(
                    connection.execute("SELECT file, first, text FROM source ORDER BY file, first")
                ),
                "command": run.get("command"),
                "began": run.get("began"),
            }
        except (ValueError, zlib.error) as error:
            raise ReportError(f"{path} is damaged: {error}.") from error


def _steps(connection: sqlite3.Connection, report: Report) -> Steps:
    """The report of a run that was killed is older than its last step."""
    return replace(report.steps, count=max(report.steps.count, steps_in(connection)))


def _rows(connection: sqlite3.Connection) -> tuple[StepRow, ...]:
    cursor = connection.execute(
        "SELECT name AS device, first AS first_step, last AS last_step, trough, peak, allocated, consumed, "
        "coalesce(survivors, 0) AS survivors, change, seconds, reserved, found, "
        "backward_seconds, optimizer_seconds "
        "FROM step JOIN device ON device.id = step.device ORDER BY device.id, last"
    )
    names = [name for name, *_ in cursor.description]
    return tuple(StepRow(**dict(zip(names, row, strict=True))) for row in cursor)


def _snapshot(connection: sqlite3.Connection) -> Snapshot | None:
    row = connection.execute("SELECT json FROM snapshot").fetchone()
    return None if row is None else Snapshot.from_dict(json.loads(zlib.decompress(row[0])))


def _growth(connection: sqlite3.Connection, run: Mapping[str, Any]) -> StepDiff | None:
    if "growth_to" not in run:
        return None
    found = connection.execute(
        "SELECT bytes, blocks, live_bytes, live_blocks, device, file, line, function, expression, op, module, phase, "
        "via FROM growth JOIN site ON site.id = growth.site ORDER BY -abs(bytes), -abs(blocks), site"
    )
    names = ("file", "line", "function", "expression", "op", "module", "phase", "via")
    sites = tuple(
        SiteChange(
            device=device,
            place=Place(**dict(zip(names, place, strict=True))),
            bytes=size,
            blocks=blocks,
            live_bytes=live_bytes,
            live_blocks=live_blocks,
        )
        for size, blocks, live_bytes, live_blocks, device, *place in found
    )
    return StepDiff(from_step=int(run["growth_from"]), to_step=int(run["growth_to"]), sites=sites)
