"""Exactness while threads allocate, snapshots are taken and watching begins."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch")


def churn(stop: threading.Event, kept: list[torch.Tensor], seed: int) -> None:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step = seed
        while not stop.is_set():
            step += 1
            kept.append(torch.empty(1 + step * 37 % 70000, device="cuda"))
            kept[-1].record_stream(torch.cuda.default_stream())
            if len(kept) > 50 or step % 3:
                kept.pop(step % len(kept))


@pytest.fixture
def churning():
    """Four threads that allocate and free on streams of their own."""
    stop, kept = threading.Event(), [[] for _ in range(4)]
    threads = [threading.Thread(target=churn, args=(stop, kept[i], i)) for i in range(4)]
    for thread in threads:
        thread.start()

    def end() -> None:
        stop.set()
        for thread in threads:
            thread.join()
        torch.cuda.synchronize()
        torch.empty(1, device="cuda")

    yield end
    end()


def test_watching_begins_while_threads_allocate(cuda, churning):
    for _ in range(25):
        cuda.detach()
        cuda.attach()
    churning()
    assert cuda.reconcile(0) == (0, 0, 0, 0, 0)


def test_readers_among_writers(cuda, churning):
    from leakguard._native import core

    watch = core.Watch()
    for step in range(100):
        core.blocks()
        cuda.allocator_segments()
        cuda.reconcile(0)
        watch.mark(float(step))
    churning()
    assert cuda.reconcile(0) == (0, 0, 0, 0, 0)
