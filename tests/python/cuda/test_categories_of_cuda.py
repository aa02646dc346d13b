"""Categories of CUDA blocks: the graph is read from a hook on the engine's thread too, and a sampled step's peak is the
ledger's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[1]))
pytestmark = pytest.mark.usefixtures("needs_cuda")

KINDS = ("mlp", "gan")


@pytest.mark.parametrize("name", KINDS)
def test_each_moment(name, monkeypatch):
    import test_categories as host

    import leakguard

    monkeypatch.setattr(host, "LOOPS", {name: host.LOOPS[name]})
    with leakguard.watch(on_exit="never") as guard:
        host.check_every_loop(guard, "cuda:0")


@pytest.mark.parametrize("name", KINDS)
def test_the_peak_of_a_sampled_step(name):
    from test_step_sample import check_peak

    import leakguard

    with leakguard.watch(on_exit="never") as guard:
        check_peak(guard, name, "cuda:0")


def test_what_a_stream_still_uses_is_no_longer_held():
    import leakguard

    with leakguard.watch(on_exit="never") as guard:
        passing = torch.ones(90_000, device="cuda")
        passing.record_stream(torch.cuda.Stream())
        kept = torch.ones(1000, device="cuda")
        del passing
        pending = [group.category for group in guard.snapshot().groups if group.pending]
        assert pending == ["temporary"]
        assert kept.is_cuda
