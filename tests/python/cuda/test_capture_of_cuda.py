"""The capture file of a run on CUDA says what its table and the live view do."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("needs_cuda")


def test_a_leak_on_the_device(tmp_path, monkeypatch):
    import leakguard
    from leakguard import live_files, recorder
    from leakguard.live_view import look
    from leakguard.recording import load_recording

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(recorder, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(recorder.LiveTeller, "every", 0.0)
    monkeypatch.setattr(recorder.LiveTeller, "budget", 1e9)
    path = tmp_path / "run.lg"
    kept = []
    with leakguard.watch(on_exit="never", save=path) as guard:
        for _ in range(30):
            passing = torch.ones(1_000_000, device="cuda")
            kept.append(torch.ones(100_000, device="cuda"))
            del passing
            leakguard.step()
        live = look(live_files.live_path(os.getpid()))
    read = load_recording(path)
    assert read.report == guard.report()
    assert read.report.status == "leak"
    assert [replace(row, found=None) for row in read.table.rows] == list(guard.table().rows)
    rows = read.table.of("cuda:0")
    assert [row.allocated for row in live.table.of("cuda:0")] == [row.allocated for row in rows]
    assert rows[-1].reserved == live.table.of("cuda:0")[-1].reserved == torch.cuda.memory_reserved(0)
    assert rows[-1].survivors == rows[-1].found == 400_000
    assert live.growing()[0].bytes_per_step == 400_000.0
    assert len(kept) == 30
