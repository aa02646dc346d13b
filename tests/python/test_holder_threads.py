"""The walk while other threads build graphs, run backward passes and make Python objects."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from holder_world import address_of, ask, chain
from torch.autograd import Variable

from leakguard._native import core


@contextmanager
def running(*works: Callable[[Callable[[], bool]], None]) -> Iterator[None]:
    """Runs each work(stopped) in a thread of its own; fails the test if one raised."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def guarded(work: Callable[[Callable[[], bool]], None]) -> None:
        try:
            work(stop.is_set)
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert errors == []


def train(stopped: Callable[[], bool]) -> None:
    blocks = [torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()) for _ in range(20)]
    model = torch.nn.Sequential(*blocks)
    while not stopped():
        loss = model(torch.randn(4, 16)).sum()
        loss.backward()
        model.zero_grad(set_to_none=True)


def churn(stopped: Callable[[], bool]) -> None:
    kept: Any = None
    while not stopped():
        kept = {i: [object(), {"x": i}, kept if i == 0 else None] for i in range(200)}
        kept[0][2] = None


def backward_unseen(stopped: Callable[[], bool]) -> None:
    """Enters the engine by its back door: the walk does not wait and reads a graph that is being freed."""
    weight = torch.randn(200, requires_grad=True)
    while not stopped():
        x = weight
        for _ in range(2000):
            x = (x * 1.0001).relu()
        loss = x.sum()
        Variable._execution_engine.run_backward(  # type: ignore[attr-defined]
            (loss,), (torch.ones(()),), False, False, (), allow_unreachable=True, accumulate_grad=True
        )


@pytest.mark.parametrize("works", [(train, train, churn), (backward_unseen, churn)], ids=["train", "unseen"])
def test_walks_during_training_are_exact(works: tuple[Any, ...]) -> None:
    kept = [torch.randn(5)]
    address = address_of(kept[0])
    with running(*works):
        for _ in range(40):
            assert chain(address) == [("local", "kept", "list"), ("item", None, "Tensor")]


def test_graph_is_left_out_while_another_thread_stays_in_the_engine() -> None:
    """Stands in for a long backward pass: a frame named as torch's own is, waiting in C code."""
    source = "def _engine_run_backward(wait):\n    wait()\n"
    namespace: dict[str, Any] = {}
    exec(compile(source, "/somewhere/torch/autograd/graph.py", "exec"), namespace)
    gate = threading.Lock()
    gate.acquire()
    thread = threading.Thread(target=namespace["_engine_run_backward"], args=(gate.acquire,))

    x, history = torch.randn(4), [torch.randn(3)]
    saved, listed = address_of(x), address_of(history[0])
    loss = (torch.randn(4, requires_grad=True) * x).sum()
    del x
    assert ask(saved)["status"] == "rooted"

    thread.start()
    try:
        report = core.find_holders([saved, listed])
    finally:
        gate.release()
        thread.join()
    assert report["statistics"]["graph_seen"] is False
    assert report["statistics"]["overshown"] == 0
    assert [suspect["status"] for suspect in report["suspects"]] == ["native", "rooted"]
    assert ask(saved)["status"] == "rooted"
    assert loss.requires_grad
