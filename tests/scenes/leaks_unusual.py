"""Leaks in places where few would look first."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import sys
import types
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from scenes.parts import WIDTH, Classifier, batch, labels, train_step
from scenes.scene import FLOAT, Steps, leak

ROW = WIDTH * FLOAT


def new_trainer() -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


@leak(holder="table", bytes_per_step=ROW, blocks_per_step=1)
def lists_in_dicts_in_a_dict(steps: Steps) -> None:
    table: defaultdict[int, defaultdict[int, list[torch.Tensor]]] = defaultdict(lambda: defaultdict(list))
    model, optimizer = new_trainer()
    for step in steps:
        train_step(model, optimizer)
        table[step % 3][step % 7].append(torch.zeros(WIDTH))  # leaks


@leak(holder="tasks", bytes_per_step=ROW, blocks_per_step=1)
def tasks_that_never_end(steps: Steps) -> None:
    async def wait_with(value: torch.Tensor) -> torch.Tensor:
        await asyncio.Event().wait()
        return value

    async def loop() -> None:
        model, optimizer = new_trainer()
        tasks = []
        for _ in steps:
            train_step(model, optimizer)
            tasks.append(asyncio.ensure_future(wait_with(torch.ones(WIDTH))))  # leaks
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()

    asyncio.run(loop())


@leak(holder="endings", bytes_per_step=ROW, blocks_per_step=1)
def callbacks_on_a_stack(steps: Steps) -> None:
    model, optimizer = new_trainer()
    endings = contextlib.ExitStack()
    for _ in steps:
        train_step(model, optimizer)
        endings.callback(torch.Tensor.numel, torch.zeros(WIDTH))  # leaks
    endings.pop_all()


@leak(holder="past", bytes_per_step=ROW, blocks_per_step=1)
def attribute_of_a_parameter(steps: Steps) -> None:
    model, optimizer = new_trainer()
    past = vars(model.hidden.bias).setdefault("_past", [])
    for _ in steps:
        train_step(model, optimizer)
        past.append(torch.zeros(WIDTH))  # leaks


@leak(holder=None, bytes_per_step=ROW, blocks_per_step=1)
def globals_of_another_module(steps: Steps) -> None:
    module = types.ModuleType("scratchpad_of_a_scene")
    sys.modules[module.__name__] = module
    try:
        model, optimizer = new_trainer()
        for step in steps:
            train_step(model, optimizer)
            setattr(module, f"value_{step}", torch.zeros(WIDTH))  # leaks
    finally:
        del sys.modules[module.__name__]


@leak(holder="packed", bytes_per_step=None, leads=False)
def what_was_packed_for_backward(steps: Steps) -> None:
    packed: list[torch.Tensor] = []

    def pack(saved: torch.Tensor) -> int:
        packed.append(saved.detach().clone())  # leaks
        return len(packed) - 1

    model, optimizer = new_trainer()
    for _ in steps:
        optimizer.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(pack, packed.__getitem__):
            loss = F.cross_entropy(model(batch()), labels())
        loss.backward()
        optimizer.step()


@leak(holder="first", bytes_per_step=ROW, blocks_per_step=1)
def iterator_split_in_two(steps: Steps) -> None:
    def values() -> Iterator[torch.Tensor]:
        while True:
            yield torch.zeros(WIDTH)  # leaks

    model, optimizer = new_trainer()
    first, second = itertools.tee(values())
    for _ in steps:
        train_step(model, optimizer)
        next(second)
    assert first is not second


@leak(holder="arrays", bytes_per_step=ROW, blocks_per_step=1, needs="cpu")
def arrays_that_share_the_memory(steps: Steps) -> None:
    model, optimizer = new_trainer()
    arrays: list[Any] = []
    for _ in steps:
        train_step(model, optimizer)
        arrays.append(torch.zeros(WIDTH).numpy())  # leaks


@leak(holder="done", bytes_per_step=ROW, blocks_per_step=1)
def results_of_futures(steps: Steps) -> None:
    model, optimizer = new_trainer()
    done: list[Future[torch.Tensor]] = []
    with ThreadPoolExecutor(1) as pool:
        for _ in steps:
            train_step(model, optimizer)
            done.append(pool.submit(lambda: torch.zeros(WIDTH)))  # leaks
            done[-1].result()


@leak(holder="head", bytes_per_step=ROW, blocks_per_step=1)
def a_hook_more_in_every_step(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for _ in steps:
        scale = torch.ones(WIDTH)  # leaks
        model.head.register_forward_pre_hook(lambda module, inputs, scale=scale: (inputs[0] * scale,))
        train_step(model, optimizer)


@leak(holder=None, bytes_per_step=ROW, blocks_per_step=1)
def garbage_that_is_frozen(steps: Steps) -> None:
    class Node:
        def __init__(self) -> None:
            self.me = self
            self.values = torch.zeros(WIDTH)  # leaks

    model, optimizer = new_trainer()
    for _ in steps:
        Node()
        gc.freeze()  # and nobody thaws it
        train_step(model, optimizer)


@leak(holder="parts", bytes_per_step=ROW, blocks_per_step=1)
def layers_that_nobody_uses(steps: Steps) -> None:
    model, optimizer = new_trainer()
    parts = nn.ParameterList()
    for _ in steps:
        train_step(model, optimizer)
        parts.append(nn.Parameter(torch.zeros(WIDTH)))  # leaks
