"""Leaks of tensors without a graph, in things that are easily seen to hold them."""

from __future__ import annotations

import copy
import functools
import logging
import weakref
from typing import Any

import torch
from torch import nn

from scenes.parts import BATCH, CLASSES, WIDTH, Classifier, batch, labels, train_step
from scenes.scene import FLOAT, Steps, leak

MODEL = sum(p.numel() for p in Classifier().parameters()) * FLOAT


class Accuracy:
    """A metric that computes over all it has seen, and is never reset."""

    def __init__(self) -> None:
        self.hits: list[torch.Tensor] = []

    def update(self, logits: torch.Tensor, answers: torch.Tensor) -> None:
        self.hits.append((logits.argmax(1) == answers).float())  # leaks in metric_never_reset

    def compute(self) -> float:
        return float(torch.cat(self.hits).mean())


class Cell:
    """An entry of a linked list."""

    def __init__(self, value: torch.Tensor, before: Cell | None) -> None:
        self.value = value
        self.before = before


@functools.cache
def position_table(length: int) -> torch.Tensor:
    """One more table for each length."""
    return torch.arange(length * WIDTH, dtype=torch.float32)  # leaks in table_cached_for_each_length


def new_trainer(lr: float = 0.1) -> tuple[Classifier, torch.optim.Optimizer]:
    """What nearly every loop begins with."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=lr)


@leak(holder="losses", bytes_per_step=FLOAT, blocks_per_step=1)
def detached_scalars_pile_up(steps: Steps) -> None:
    model, optimizer = new_trainer()
    losses = []
    for _ in steps:
        loss = train_step(model, optimizer)
        losses.append(loss.clone())  # leaks


@leak(holder="noise", bytes_per_step=BATCH * WIDTH * FLOAT, blocks_per_step=1)
def cache_keyed_by_step(steps: Steps) -> None:
    model, optimizer = new_trainer()
    noise: dict[int, torch.Tensor] = {}
    for step in steps:
        train_step(model, optimizer)
        noise[step] = torch.rand(BATCH, WIDTH)  # leaks


@leak(holder="hits", bytes_per_step=BATCH * FLOAT, blocks_per_step=1)
def metric_never_reset(steps: Steps) -> None:
    model, optimizer = new_trainer()
    accuracy = Accuracy()
    for _ in steps:
        train_step(model, optimizer)
        with torch.no_grad():
            accuracy.update(model(batch()), labels())
    assert 0 <= accuracy.compute() <= 1


@leak(holder="registry", bytes_per_step=MODEL)
def models_in_a_registry(steps: Steps) -> None:
    registry: list[nn.Module] = []
    for _ in steps:
        model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))  # leaks
        registry.append(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train_step(model, optimizer)
        optimizer.zero_grad()


@leak(holder="param_groups", bytes_per_step=None, leads=False)
def optimizer_keeps_old_heads(steps: Steps) -> None:
    body = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
    for _ in steps:
        head = nn.Linear(WIDTH, 2)  # leaks
        optimizer.add_param_group({"params": list(head.parameters())})
        optimizer.zero_grad()
        head(body(batch())).sum().backward()
        optimizer.step()


@leak(holder="firsts", bytes_per_step=64 * WIDTH * FLOAT, blocks_per_step=1)
def row_pins_its_base(steps: Steps) -> None:
    model, optimizer = new_trainer()
    firsts = []
    for _ in steps:
        train_step(model, optimizer)
        table = torch.rand(64, WIDTH)  # leaks
        firsts.append(table[0])


@leak(holder="records", bytes_per_step=WIDTH * FLOAT, blocks_per_step=1)
def tensors_in_log_records(steps: Steps) -> None:
    records: list[logging.LogRecord] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    log = logging.Logger("training")
    log.addHandler(Keeps())
    model, optimizer = new_trainer()
    for _ in steps:
        train_step(model, optimizer)
        log.info("mean %s", model.hidden.weight.detach().mean(0))  # leaks


@leak(holder="best", bytes_per_step=MODEL)
def every_state_kept_as_the_best(steps: Steps) -> None:
    model, optimizer = new_trainer()
    best = []
    for _ in steps:
        train_step(model, optimizer)
        best.append({name: value.clone() for name, value in model.state_dict().items()})  # leaks


@leak(holder="best", bytes_per_step=MODEL)
def deep_copies_of_every_state(steps: Steps) -> None:
    model, optimizer = new_trainer()
    best = []
    for _ in steps:
        train_step(model, optimizer)
        best.append(copy.deepcopy(model.state_dict()))  # leaks


@leak(holder="position_table", bytes_per_step=None, blocks_per_step=1)
def table_cached_for_each_length(steps: Steps) -> None:
    position_table.cache_clear()
    model, optimizer = new_trainer()
    for step in steps:
        train_step(model, optimizer)
        assert position_table(32 + step).numel() > 0
    position_table.cache_clear()


@leak(holder="newest", bytes_per_step=WIDTH * FLOAT, blocks_per_step=1)
def values_in_a_linked_list(steps: Steps) -> None:
    model, optimizer = new_trainer()
    newest = None
    for _ in steps:
        train_step(model, optimizer)
        newest = Cell(model.hidden.bias.detach().clone(), newest)  # leaks


@leak(holder="cache", bytes_per_step=WIDTH * FLOAT, blocks_per_step=1)
def values_that_keep_their_weak_keys(steps: Steps) -> None:
    model, optimizer = new_trainer()
    cache: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    class Job:
        pass

    for _ in steps:
        train_step(model, optimizer)
        job = Job()
        cache[job] = (job, torch.zeros(WIDTH))  # leaks


@leak(holder="replay", bytes_per_step=BATCH * WIDTH * FLOAT, blocks_per_step=1)
def replay_without_limit(steps: Steps) -> None:
    model, optimizer = new_trainer()
    replay = []
    for _ in steps:
        replay.append(torch.randn(BATCH, WIDTH))  # leaks
        chosen = replay[len(replay) // 2]
        optimizer.zero_grad()
        model(chosen).sum().backward()
        optimizer.step()


@leak(holder="kept", bytes_per_step=WIDTH * FLOAT, steps=60)
def joined_with_the_new_in_every_step(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = torch.empty(0, WIDTH)
    for _ in steps:
        train_step(model, optimizer)
        kept = torch.cat([kept, torch.ones(1, WIDTH)])  # leaks


class Memory:
    def __init__(self) -> None:
        self.parts = {"seen": torch.empty(0, WIDTH)}

    def add(self, value: torch.Tensor) -> None:
        seen = self.parts
        seen["seen"] = torch.vstack((seen["seen"], value))  # leaks in an_object_joins_what_it_is_given


@leak(holder="parts", bytes_per_step=WIDTH * FLOAT, steps=60)
def an_object_joins_what_it_is_given(steps: Steps) -> None:
    model, optimizer = new_trainer()
    memory = Memory()
    for _ in steps:
        train_step(model, optimizer)
        memory.add(torch.ones(1, WIDTH))
