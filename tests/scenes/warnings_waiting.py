"""Loops that call for a warning and no more: what grows will be let go of, by a limit or by the collector."""

from __future__ import annotations

import functools
import gc
import types
from collections import deque

import numpy as np
import torch
from torch import nn

from scenes.parts import WIDTH, Classifier, batch, train_step
from scenes.scene import FLOAT, Steps, warning

ROW = WIDTH * FLOAT


class Node:
    """Refers to itself: freed by the collector only."""

    def __init__(self) -> None:
        self.me = self
        self.values = torch.zeros(WIDTH)  # leaks in cycles_with_the_collector_off


@functools.lru_cache(maxsize=5000)
def table(length: int) -> torch.Tensor:
    """One of many, of which many are kept."""
    return torch.zeros(WIDTH, dtype=torch.float32) + length  # leaks in large_cache_that_fills


def new_trainer() -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


@warning("waiting-for-gc", bytes_per_step=ROW, blocks_per_step=1)
def cycles_with_the_collector_off(steps: Steps) -> None:
    model, optimizer = new_trainer()
    gc.disable()
    try:
        for _ in steps:
            Node()
            train_step(model, optimizer)
    finally:
        gc.enable()


@warning("waiting-for-gc", bytes_per_step=None)
def patched_layers_that_were_dropped(steps: Steps) -> None:
    def forward(self: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.T

    model, optimizer = new_trainer()
    gc.disable()
    try:
        for _ in steps:
            layer = nn.Linear(WIDTH, WIDTH)  # leaks
            layer.forward = types.MethodType(forward, layer)  # type: ignore[method-assign]
            layer(batch())
            train_step(model, optimizer)
    finally:
        gc.enable()


@warning("bounded", holder="recent", bytes_per_step=ROW, blocks_per_step=1)
def deque_that_is_far_from_its_limit(steps: Steps) -> None:
    model, optimizer = new_trainer()
    recent: deque[torch.Tensor] = deque(maxlen=5000)
    for _ in steps:
        recent.append(torch.zeros(WIDTH))  # leaks
        train_step(model, optimizer)


@warning("bounded", holder="table", bytes_per_step=None)
def large_cache_that_fills(steps: Steps) -> None:
    table.cache_clear()
    model, optimizer = new_trainer()
    for step in steps:
        table(step)
        train_step(model, optimizer)


@warning("bounded", holder="memory", bytes_per_step=ROW, blocks_per_step=1)
def list_made_in_advance_that_fills(steps: Steps) -> None:
    model, optimizer = new_trainer()
    memory: list[torch.Tensor | None] = [None] * 1000
    for step in steps:
        train_step(model, optimizer)
        memory[step] = torch.zeros(WIDTH)  # leaks


@warning("bounded", holder="memory", bytes_per_step=ROW, blocks_per_step=1)
def array_made_in_advance_that_fills(steps: Steps) -> None:
    model, optimizer = new_trainer()
    memory = np.empty(1000, dtype=object)
    for step in steps:
        train_step(model, optimizer)
        memory[step] = torch.zeros(WIDTH)  # leaks
