"""Leaks behind holders that do not look like containers, or that only become longer by being replaced."""

from __future__ import annotations

import contextvars
import itertools
import queue
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from scenes.parts import BATCH, WIDTH, Classifier, batch, labels, train_step
from scenes.scene import FLOAT, Steps, leak

ROW = WIDTH * FLOAT


def new_trainer() -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


@leak(holder="scene_trace", bytes_per_step=ROW, blocks_per_step=1)
def tuple_in_a_context_variable(steps: Steps) -> None:
    trace: contextvars.ContextVar[tuple[torch.Tensor, ...]] = contextvars.ContextVar(
        "scene_trace", default=()
    )
    model, optimizer = new_trainer()
    before = trace.set(())
    for _ in steps:
        train_step(model, optimizer)
        trace.set((*trace.get(), torch.zeros(WIDTH)))  # leaks
    trace.reset(before)


@dataclass(slots=True)
class Record:
    """The scores of a step, and the record before it."""

    scores: torch.Tensor
    previous: Record | None


@leak(holder="newest", bytes_per_step=ROW, blocks_per_step=1, needs="cpu")
def records_linked_in_another_thread(steps: Steps) -> None:
    inbox: queue.Queue[torch.Tensor | None] = queue.Queue()
    taken = threading.Semaphore(0)

    def record() -> None:
        newest = None
        while (loss := inbox.get()) is not None:
            newest = Record(torch.zeros(WIDTH) + loss, newest)  # leaks
            taken.release()

    recorder = threading.Thread(target=record, daemon=True)
    recorder.start()
    model, optimizer = new_trainer()
    for _ in steps:
        inbox.put(train_step(model, optimizer))
        taken.acquire()
    inbox.put(None)
    recorder.join()


class Offload:
    """Takes what a graph saves, under a number, and never forgets it."""

    def __init__(self) -> None:
        self.store: dict[int, torch.Tensor] = {}

    def pack(self, tensor: torch.Tensor) -> int:
        self.store[len(self.store)] = tensor.to(torch.bfloat16)  # leaks in saved_tensors_put_aside
        return len(self.store) - 1

    def unpack(self, number: int) -> torch.Tensor:
        return self.store[number].to(torch.float32)


@leak(holder="store", bytes_per_step=None)
def saved_tensors_put_aside(steps: Steps) -> None:
    offload = Offload()
    model, optimizer = new_trainer()
    for _ in steps:
        optimizer.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(offload.pack, offload.unpack):
            loss = torch.tanh(model.head(torch.tanh(model.hidden(batch())))).square().mean()
        loss.backward()
        optimizer.step()


@leak(holder="bank", bytes_per_step=BATCH * ROW, blocks_per_step=1, needs="cpu")
def first_rows_in_an_array_of_objects(steps: Steps) -> None:
    model, optimizer = new_trainer()
    bank: Any = np.empty(0, dtype=object)
    for _ in steps:
        train_step(model, optimizer)
        row = np.empty(1, dtype=object)
        row[0] = torch.randn(BATCH, WIDTH)[0].numpy()  # leaks
        bank = np.concatenate([bank, row])


@leak(holder="seen", bytes_per_step=ROW, blocks_per_step=1)
def values_sent_to_a_generator(steps: Steps) -> None:
    def average() -> Generator[torch.Tensor | None, torch.Tensor, None]:
        seen: list[torch.Tensor] = []
        mean = None
        while True:
            seen.append((yield mean))
            mean = torch.stack(seen[-3:]).mean()

    model, optimizer = new_trainer()
    smooth = average()
    next(smooth)
    for _ in steps:
        train_step(model, optimizer)
        smooth.send(torch.zeros(WIDTH))  # leaks


@leak(holder="schedules", bytes_per_step=None, source="optimizer", leads=False)
def schedules_of_replaced_optimizers(steps: Steps) -> None:
    body, schedules = nn.Linear(WIDTH, WIDTH), []
    for _ in steps:
        head = nn.Linear(WIDTH, WIDTH)  # leaks
        optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])
        schedules.append(torch.optim.lr_scheduler.StepLR(optimizer, 10))
        head(torch.relu(body(batch()))).square().mean().backward()
        optimizer.step()  # leaks


class Remembered:
    """A descriptor with the values of all its objects, by number."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}

    def __set__(self, owner: Any, value: Any) -> None:
        self.values[len(self.values)] = value


@leak(holder="values", bytes_per_step=BATCH * ROW, blocks_per_step=1)
def values_in_a_descriptor(steps: Steps) -> None:
    class Sample:
        mask = Remembered()

        def __init__(self, x: torch.Tensor) -> None:
            self.mask = x.abs()  # leaks

    model, optimizer = new_trainer()
    for _ in steps:
        optimizer.zero_grad()
        x = batch()
        Sample(x)
        F.cross_entropy(model(x), labels()).backward()
        optimizer.step()


@leak(holder="log", bytes_per_step=ROW, blocks_per_step=1)
def attribute_for_each_step(steps: Steps) -> None:
    class Log:
        pass

    log = Log()
    model, optimizer = new_trainer()
    for step in steps:
        train_step(model, optimizer)
        setattr(log, f"step_{step}", torch.zeros(WIDTH))  # leaks


@leak(holder=None, bytes_per_step=BATCH * ROW, blocks_per_step=1)
def second_reader_that_never_reads(steps: Steps) -> None:
    def batches() -> Iterator[torch.Tensor]:
        while True:
            yield torch.randn(BATCH, WIDTH)  # leaks

    model, optimizer = new_trainer()
    read, unread = itertools.tee(batches())
    for _ in steps:
        optimizer.zero_grad()
        F.cross_entropy(model(next(read)), labels()).backward()
        optimizer.step()
    del unread
