"""Chrome's trace events, which Perfetto reads too: a slice for each step, and counters of each device."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from leakguard.exports.parts import clean, step_table
from leakguard.recording import Recording
from leakguard.step_table import StepRow, StepTable

__all__ = ["chrome_trace"]

PROCESS, THREAD = 1, 1
DURING = ("peak", "trough", "consumed", "survivors")


def chrome_trace(recording: Recording) -> bytes:
    """The trace as JSON. Time begins with the first step that is known; a step whose time is not known gets the median
    of the others, or a second, and says so. Raises ReportError without steps."""
    table = step_table(recording)
    spans = _spans(table)
    title = f"leakguard {clean(recording.command or '')}".strip()
    events: list[dict[str, Any]] = [_name("process_name", title), _name("thread_name", "steps")]
    finest = max(map(table.of, table.devices), key=len, default=())
    for row in finest:
        begin, length, measured = spans[row.first_step, row.last_step]
        name = f"step {row.last_step}" if row.steps == 1 else f"steps {row.first_step} to {row.last_step}"
        arguments = {} if measured else {"duration": "not known"}
        events.append(_event("X", name, begin, dur=length, args=arguments))
    for row in table.rows:
        begin, length, _ = spans[row.first_step, row.last_step]
        events += [_counter(row, figure, begin) for figure in DURING]
        events.append(_counter(row, "allocated", begin + length))
    events += _findings(recording, spans)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode()


def _spans(table: StepTable) -> dict[tuple[int, int], tuple[float, float, bool]]:
    """When each row's steps began, and how long they took, in microseconds, and whether that was measured. Devices may
    have rows of different lengths: a row begins when the latest row before it has ended."""
    known = [row.seconds / row.steps for row in table.rows if row.seconds is not None]
    usual = median(known) if known else 1.0
    seconds: dict[tuple[int, int], float | None] = {}
    for row in table.rows:
        key = (row.first_step, row.last_step)
        seconds[key] = row.seconds if row.seconds is not None else seconds.get(key)
    spans: dict[tuple[int, int], tuple[float, float, bool]] = {}
    ends: list[tuple[int, float]] = [(0, 0.0)]  # last step, and when it ended
    for first, last in sorted(seconds, key=lambda key: (key[1], key[0])):
        taken = seconds[first, last]
        length = (usual * (last - first + 1) if taken is None else taken) * 1e6
        begin = max((end for step, end in ends if step < first), default=0.0)
        spans[first, last] = (begin, length, taken is not None)
        ends = [*ends[-8:], (last, begin + length)]
    return spans


def _findings(
    recording: Recording, spans: dict[tuple[int, int], tuple[float, float, bool]]
) -> list[dict[str, Any]]:
    """A mark where each finding's blocks began to be born."""
    marks = []
    for finding in recording.report.findings:
        first = finding.first_step
        begin = next((begin for (_, last), (begin, *_) in spans.items() if first and last >= first), None)
        if begin is not None:
            arguments = {
                "fingerprint": finding.fingerprint,
                "why": clean(finding.why),
                "bytes per step": finding.bytes_per_step,
            }
            marks.append(_event("i", clean(finding.title), begin, s="p", args=arguments))
    return marks


def _counter(row: StepRow, figure: str, time: float) -> dict[str, Any]:
    return _event("C", f"{clean(row.device)} {figure}", time, args={"bytes": getattr(row, figure)})


def _name(kind: str, name: str) -> dict[str, Any]:
    return _event("M", kind, 0.0, args={"name": name})


def _event(phase: str, name: str, time: float, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": name, "pid": PROCESS, "tid": THREAD, "ts": time, **more}
