"""Fifty tests that do not leak, and that a hasty check might accuse: threads, caches, lazy initialisation."""

from __future__ import annotations

import collections
import functools
import logging
import queue
import threading
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

LATEST: dict[str, torch.Tensor] = {}
LAZY: dict[str, torch.Tensor] = {}
RING: collections.deque[torch.Tensor] = collections.deque(maxlen=3)
REFERENCES: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = torch.relu(self.hidden(x)).detach()
        return self.head(self.last)


@functools.cache
def table(length: int) -> torch.Tensor:
    return torch.arange(length, dtype=torch.float32)


@pytest.fixture(scope="module")
def shared() -> nn.Module:
    return Net()


@pytest.fixture
def fresh() -> nn.Module:
    return Net()


@pytest.fixture(scope="module")
def prefetched() -> Iterator[queue.Queue[torch.Tensor]]:
    """Batches that a thread of its own makes all the time."""
    ready: queue.Queue[torch.Tensor] = queue.Queue(maxsize=4)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                ready.put(torch.ones(4, 8), timeout=0.05)
            except queue.Full:
                pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield ready
    stop.set()
    thread.join()


@pytest.mark.parametrize("n", range(5))
def test_temporaries(n: int) -> None:
    assert (torch.ones(100) * n).sum().item() == 100 * n


@pytest.mark.limit_gpu_leaks("0 B")
@pytest.mark.parametrize("n", range(5))
def test_gradients_of_a_shared_module(shared: nn.Module, n: int) -> None:
    shared(torch.ones(2, 8)).sum().backward()


@pytest.mark.limit_gpu_leaks("0 B")
@pytest.mark.parametrize("length", [10, 20, 30, 40, 50])
def test_cache(length: int) -> None:
    assert len(table(length)) == length


@pytest.mark.parametrize("n", range(5))
def test_lazy_initialisation(n: int) -> None:
    LAZY.setdefault("window", torch.hann_window(64))
    torch.fft.fft(LAZY["window"])


@pytest.mark.limit_gpu_leaks("0 B")
@pytest.mark.parametrize("n", range(5))
def test_latest_is_replaced(n: int) -> None:
    LATEST["loss"] = torch.zeros(50) + n


@pytest.mark.parametrize("n", range(5))
def test_ring(n: int) -> None:
    RING.append(torch.zeros(50) + n)
    REFERENCES.add(torch.zeros(10))


@pytest.mark.limit_gpu_leaks("0 B")
@pytest.mark.parametrize("n", range(5))
def test_batches_of_a_thread(prefetched: queue.Queue[torch.Tensor], n: int) -> None:
    assert prefetched.get(timeout=60).sum().item() == 32


@pytest.mark.parametrize("n", range(5))
def test_work_in_threads(n: int) -> None:
    results: list[float] = []
    threads = [
        threading.Thread(target=lambda: results.append(torch.ones(100).sum().item())) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [100.0] * 3


@pytest.mark.limit_gpu_leaks("0 B")
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_training(fresh: nn.Module, make: type[torch.optim.Optimizer]) -> None:
    optimizer = make(fresh.parameters(), lr=0.01)  # type: ignore[call-arg]
    for _ in range(21):
        optimizer.zero_grad()
        loss = F.cross_entropy(fresh(torch.randn(4, 8)), torch.tensor([0, 1, 0, 1]))
        loss.backward()
        optimizer.step()


def test_evaluation_gathers_its_outputs(fresh: nn.Module) -> None:
    with torch.no_grad():
        outputs = [fresh(torch.randn(4, 8)) for _ in range(30)]
    assert torch.cat(outputs).shape == (120, 2)


@pytest.mark.limit_gpu_leaks("0 B")
def test_logged_tensors(caplog: pytest.LogCaptureFixture) -> None:
    logging.warning("loss %s", torch.ones(10).sum())
    assert len(caplog.records) == 1


@pytest.mark.limit_gpu_leaks("0 B")
@pytest.mark.parametrize("n", range(3))
def test_errors_that_hold_tensors(n: int) -> None:
    with pytest.raises(ValueError, match="no") as caught:
        raise ValueError("no", torch.ones(10))
    assert caught.value.args[1].sum().item() == 10


@pytest.mark.parametrize("n", range(2))
def test_cycles(n: int) -> None:
    holder: dict[str, object] = {"tensor": torch.zeros(100)}
    holder["me"] = holder
