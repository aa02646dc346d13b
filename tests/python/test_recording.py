"""What a Guard records of a run: the parts agree, go through a file, and survive the failure of one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import leakguard  # noqa: E402
from leakguard.guard import Guard  # noqa: E402
from leakguard.recording import Recording  # noqa: E402

kept: list[torch.Tensor] = []


@pytest.fixture
def guard() -> Iterator[Guard]:
    guard = leakguard.watch(on_exit="never")
    for _ in range(16):
        kept.append(torch.ones(4096))
        leakguard.step()
    yield guard
    guard.stop()
    kept.clear()


def test_a_recording_has_every_part(guard: Guard) -> None:
    recording = guard.recording()
    (finding,) = recording.report.findings
    assert finding.allocated_at.expression == "torch.ones(4096)"
    assert recording.table is not None and recording.table.of("cpu")[-1].last_step == 16
    assert recording.snapshot is not None
    assert any(group.place == finding.allocated_at for group in recording.snapshot.groups)
    assert [row.found for row in recording.table.of("cpu")] == [4 * 4096] * 16
    assert all((row.found or 0) <= row.survivors for row in recording.table.rows)
    (piece, *_) = recording.sources
    assert piece.file == __file__
    line = finding.allocated_at.line
    assert line is not None
    assert piece.lines[line - piece.first].strip() == "kept.append(torch.ones(4096))"
    assert Recording.from_dict(json.loads(json.dumps(recording.to_dict()))) == recording


def test_what_fails_costs_no_report(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no table")

    monkeypatch.setattr("leakguard.engine.Engine.table", fail)
    recording = guard.recording()
    assert recording.table is None
    assert recording.report.status == "leak"
    monkeypatch.undo()
    assert guard.report().lost.failures == 2  # the table, and the advice that needs one


def test_after_stop_there_are_report_and_steps(guard: Guard) -> None:
    guard.stop()
    recording = guard.recording()
    assert recording.report.status == "leak"
    assert recording.table is not None and recording.table.rows
    assert recording.snapshot is None


def test_unwatched_there_is_a_report() -> None:
    assert Guard(inert="switched off").recording().report.status == "inconclusive"
