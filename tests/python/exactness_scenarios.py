"""Scenarios for test_exactness.py: `python exactness_scenarios.py NAME...` plays them in one process.

The counting allocator stands below leakguard's wrapper and sees every allocation and free that torch makes.
At each comparison the ledger must hold exactly the blocks that were born while it watched and are still live:
address for address, size for size. What was compared is printed as JSON, a line a scenario.
"""

from __future__ import annotations

import gc
import itertools
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import ClassVar

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import leakguard
from leakguard._native import core

import _counting  # isort: skip  # needs torch's libraries


class Comparison:
    """The ledger against the counting allocator."""

    watched: ClassVar[list[list[int]]] = []  # first and last birth of each time of watching, in this process

    def __init__(self) -> None:
        self.rounds = 0
        self.blocks = 0
        self.differences: list[str] = []
        self.guard: leakguard.Guard | None = None

    def begin(self, *modules: nn.Module) -> None:
        self.guard = leakguard.watch(*modules)
        self.watched.append([_counting.births() + 1, sys.maxsize])

    def stop(self) -> None:
        self.guard.stop()
        self.watched[-1][1] = _counting.births()

    def expected(self) -> dict[int, int]:
        return {
            address: size
            for address, (size, birth) in _counting.live().items()
            if any(first <= birth <= last for first, last in self.watched)
        }

    def check(self, where: str) -> int:
        """Compares now; no other thread may be allocating. Returns how many blocks are live."""
        gc.disable()  # a collection between the two look-ups would free blocks
        reference = self.expected()
        rows = core.blocks()
        counts = core.counts("cpu")
        gc.enable()
        ledger = {address: size for address, size, *_ in rows}
        self.expect(len(ledger) == len(rows), f"{where}: an address twice")
        for address in reference.keys() - ledger.keys():
            self.differences.append(f"{where}: missing {reference[address]} bytes")
        for address in ledger.keys() - reference.keys():
            self.differences.append(f"{where}: dead or foreign {ledger[address]} bytes")
        for address in ledger.keys() & reference.keys():
            if ledger[address] != reference[address]:
                self.differences.append(f"{where}: {ledger[address]} bytes for {reference[address]}")
        self.expect(counts[:2] == (len(reference), sum(reference.values())), f"{where}: sums {counts[:2]}")
        self.expect(not any(core.lost()), f"{where}: lost {core.lost()}")
        self.rounds += 1
        self.blocks = max(self.blocks, len(ledger))
        return len(ledger)

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.differences.append(otherwise)


def mlp(width: int = 64, layers: int = 9) -> nn.Module:
    return nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, dropout=0.1)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embedding(tokens)))


def train(model: nn.Module, steps: int, batch: Callable[[], torch.Tensor]) -> Iterator[int]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        output = model(batch())
        output.square().mean().backward()
        optimizer.step()
        yield step


def tokens() -> torch.Tensor:
    return torch.randint(0, 50, (4, 12))


def plain_training(compare: Comparison) -> None:
    compare.begin()
    for make, batch in ((mlp, lambda: torch.randn(16, 64)), (Encoder, tokens)):
        for step in train(make(), 12, batch):
            compare.check(f"step {step}")


def four_threads(compare: Comparison) -> None:
    compare.begin()
    barrier = threading.Barrier(5)

    def work() -> None:
        for _ in train(Encoder(), 12, tokens):
            barrier.wait()  # all stand still
            barrier.wait()  # compared

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step in range(12):
        barrier.wait()
        compare.check(f"step {step}")
        barrier.wait()
    for thread in threads:
        thread.join()
    compare.check("joined")


class Numbers(Dataset):
    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, bool]:
        return torch.full((32,), float(index)), torch.zeros(1).exp(), _child_is_inert()


def _child_is_inert() -> bool:
    """In a worker: no allocation of its own is recorded, whether it was forked or spawned."""
    module = sys.modules.get("leakguard._core")
    return module is None or not module.watching()


def _workers(compare: Comparison, how: str, workers: int) -> None:
    compare.begin()
    kept = []
    model = mlp(32, 4)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    loader = DataLoader(Numbers(), batch_size=8, num_workers=workers, multiprocessing_context=how)
    for epoch in range(workers):
        for step, (batch, ones, inert) in enumerate(loader):
            compare.expect(bool(inert.all()), "a worker records")
            optimizer.zero_grad()
            output = model(batch)
            (output.sum() * ones.sum()).backward()
            optimizer.step()
            kept.append((batch, output))
            compare.check(f"epoch {epoch}, step {step}")


def forked_workers(compare: Comparison) -> None:
    _workers(compare, "fork", 2)


def spawned_workers(compare: Comparison) -> None:
    _workers(compare, "spawn", 1)


def freed_by_another_thread(compare: Comparison) -> None:
    compare.begin()
    mail: queue.Queue[torch.Tensor | None] = queue.Queue(maxsize=8)
    kept = []

    def consume() -> None:
        for number in itertools.count():
            tensor = mail.get()
            if tensor is None:
                return
            if number % 10 == 0:
                kept.append(tensor)
            del tensor  # here it is freed

    def produce() -> None:
        for size in range(1, 600):
            mail.put(torch.empty(size))

    consumers = [threading.Thread(target=consume) for _ in range(2)]
    producers = [threading.Thread(target=produce) for _ in range(2)]
    for thread in consumers + producers:
        thread.start()
    for thread in producers:
        thread.join()
    for _ in consumers:
        mail.put(None)
    for thread in consumers:
        thread.join()
    compare.check("all freed or kept")


class RefusesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        kept = grad.clone()
        raise RuntimeError(f"refused {kept.shape}")


def exceptions(compare: Comparison) -> None:
    compare.begin()
    model = mlp(16, 3)

    def too_large() -> None:
        torch.empty(1 << 60)

    def wrong_shape() -> None:
        model(torch.randn(4, 17))

    def in_backward() -> None:
        RefusesBackward.apply(model(torch.randn(4, 16))).sum().backward()

    def in_hook() -> None:
        output = model(torch.randn(4, 16))

        def hook(grad: torch.Tensor) -> torch.Tensor:
            raise ValueError(str(grad.clone().shape))

        output.register_hook(hook)
        output.sum().backward()

    kept_errors = []
    for action in (too_large, wrong_shape, in_backward, in_hook):
        for _ in range(3):
            try:
                action()
            except (RuntimeError, ValueError) as error:
                kept_errors.append(error)  # with its traceback, which keeps the frames' tensors
            else:
                compare.expect(False, f"{action.__name__} did not raise")
            compare.check(action.__name__)
    kept_errors.clear()
    compare.check("forgiven")


def begun_in_the_middle(compare: Comparison) -> None:
    model = Encoder()
    loop = train(model, 20, tokens)
    old = [torch.empty(100 + i) for i in range(50)]
    for _ in range(5):
        next(loop)
    compare.begin(model)
    before = compare.check("just begun")
    del old[10:]  # frees of blocks that nobody saw being born
    compare.expect(compare.check("older ones freed") == before, "older ones were counted")
    for step in loop:
        compare.check(f"step {step}")
    # Gradients are made anew in each step; parameters and optimizer state are older than the watch.
    known = {address for address, *_ in core.blocks()}
    for parameter in model.parameters():
        compare.expect(parameter.untyped_storage().data_ptr() not in known, "a parameter is known")
        compare.expect(parameter.grad.untyped_storage().data_ptr() in known, "a gradient is missing")


def everything_dropped(compare: Comparison) -> None:
    compare.begin()
    model = Encoder()
    losses = []
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        loss = model(tokens()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    compare.check("before")
    del model, optimizer, losses, loss
    gc.collect()
    compare.check("after")
    compare.expect(core.blocks() == [] and core.counts("cpu")[:2] == (0, 0), "the ledger is not empty")


def watched_twice(compare: Comparison) -> None:
    compare.begin()
    first = [torch.empty(10 + i) for i in range(20)]
    compare.check("first watch")
    compare.stop()
    unseen = [torch.empty(1000 + i) for i in range(20)]  # nobody watches
    del first[5:]  # known blocks that die while nobody watches
    compare.begin()
    second = [torch.empty(50 + i) for i in range(20)]
    compare.check("second watch")
    known = {address for address, *_ in core.blocks()}
    compare.expect(all(t.data_ptr() in known for t in first + second), "a block is not known")
    compare.expect(not any(t.data_ptr() in known for t in unseen), "what nobody saw is known")


def storages_that_change(compare: Comparison) -> None:
    compare.begin()
    tensor = torch.empty(10)
    for size in (100, 5, 1000, 0, 3):
        tensor.resize_(size)
        compare.check(f"resize {size}")
    tensor.untyped_storage().resize_(0)
    compare.check("storage emptied")
    tensor.untyped_storage().resize_(4096)
    compare.check("storage grown")
    shared = torch.ones(300).share_memory_()
    compare.check("shared")
    foreign = torch.from_numpy(torch.ones(20).numpy())
    view = foreign[:5]
    compare.check("foreign")
    empty = [torch.empty(0) for _ in range(10)]
    compare.check("empty")
    del tensor, shared, foreign, view, empty
    compare.check("dropped")


def used_again_at_once(compare: Comparison) -> None:
    """The worst interleaving of a free with the next allocation; see `linger_on`.

    thread A                                thread B
    wrapper's deleter: forget(address)
      inner free(address) ──────────────▶   allocate() = the same address
        . waits inside the free             wrapper: born(address)
      return                                keeps it

    A wrapper that forgot after the inner free would forget B's block.
    """
    compare.begin()
    rounds = 50
    kept = []
    tensors = [torch.empty(777) for _ in range(rounds)]

    def free() -> None:
        while tensors:
            tensors.pop()

    def take() -> None:
        for _ in range(rounds):
            while not _counting.someone_lingers():
                time.sleep(0)
            kept.append(torch.empty(777))

    _counting.linger_on(4 * 777, 20000)
    threads = [threading.Thread(target=free), threading.Thread(target=take)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _counting.linger_on(0, 0)
    compare.check("all handed over")
    compare.expect(_counting.lingered() == rounds, f"only {_counting.lingered()} were used again at once")


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    _counting.install()
    for name in names:
        torch.manual_seed(0)
        compare = Comparison()
        globals()[name](compare)
        compare.stop()
        gc.collect()
        result = {"name": name, "rounds": compare.rounds, "blocks": compare.blocks}
        print(json.dumps({**result, "differences": compare.differences}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
