"""Leaks whose holder is easily overlooked: hooks, closures, exceptions, frames, threads."""

from __future__ import annotations

import functools
import queue
import threading
import weakref
from collections.abc import Callable, Generator
from typing import ClassVar

import torch
from torch import nn

from scenes.parts import BATCH, CLASSES, WIDTH, Classifier, batch, train_step
from scenes.scene import FLOAT, Steps, leak

ROW = WIDTH * FLOAT
HIDDEN = BATCH * ROW


class Monitor:
    """Counts what it is shown in a list that all monitors share."""

    shown: ClassVar[list[torch.Tensor]] = []

    def show(self, value: torch.Tensor) -> None:
        self.shown.append(value)


def new_trainer() -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def remember(value: torch.Tensor, past: list[torch.Tensor] = []) -> int:  # noqa: B006: the mistake this is about
    """Remembers in the default of its argument."""
    past.append(value)
    return len(past)


def fails(values: torch.Tensor) -> None:
    """Raises with a tensor among its locals."""
    scaled = values * 2  # leaks in exceptions_kept
    raise ArithmeticError(f"{scaled.numel()} values and no minimum")


def fails_twice() -> None:
    """Raises one exception while handling another that holds a tensor."""
    try:
        hidden = torch.zeros(BATCH, WIDTH)  # leaks in chained_exceptions_kept
        raise MemoryError(f"no room for {hidden.shape}")
    except MemoryError:
        raise RuntimeError("the step failed") from None


@leak(holder="activations", bytes_per_step=HIDDEN, blocks_per_step=1)
def forward_hook_stores_outputs(steps: Steps) -> None:
    model, optimizer = new_trainer()
    activations = []

    def store(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
        activations.append(output.detach().tanh())  # leaks

    model.hidden.register_forward_hook(store)
    for _ in steps:
        train_step(model, optimizer)


@leak(holder="callbacks", bytes_per_step=ROW, blocks_per_step=1)
def closures_in_a_list(steps: Steps) -> None:
    model, optimizer = new_trainer()
    callbacks: list[Callable[[], float]] = []
    for _ in steps:
        train_step(model, optimizer)
        means = model.hidden.weight.detach().mean(1)  # leaks
        callbacks.append(lambda means=means: float(means.max()))


@leak(holder="later", bytes_per_step=ROW, blocks_per_step=1)
def partials_in_a_list(steps: Steps) -> None:
    model, optimizer = new_trainer()
    later: list[Callable[[], torch.Tensor]] = []
    for _ in steps:
        train_step(model, optimizer)
        later.append(functools.partial(torch.sum, torch.full((WIDTH,), 2.0)))  # leaks


@leak(holder="errors", bytes_per_step=HIDDEN, blocks_per_step=1)
def exceptions_kept(steps: Steps) -> None:
    model, optimizer = new_trainer()
    errors = []
    inputs = batch()
    for _ in steps:
        train_step(model, optimizer)
        try:
            fails(inputs)
        except ArithmeticError as error:
            errors.append(error)


@leak(holder="failures", bytes_per_step=HIDDEN, blocks_per_step=1)
def chained_exceptions_kept(steps: Steps) -> None:
    model, optimizer = new_trainer()
    failures = []
    for _ in steps:
        train_step(model, optimizer)
        try:
            fails_twice()
        except RuntimeError as error:
            failures.append(error.with_traceback(None))


@leak(holder="streams", bytes_per_step=HIDDEN, blocks_per_step=1)
def suspended_generators_kept(steps: Steps) -> None:
    def augmented() -> Generator[float, None, None]:
        noise = torch.randn(BATCH, WIDTH)  # leaks
        yield float(noise[0, 0])
        yield float(noise[0, 1])

    model, optimizer = new_trainer()
    streams = []
    for _ in steps:
        stream = augmented()
        next(stream)
        streams.append(stream)
        train_step(model, optimizer)


@leak(holder="seen", bytes_per_step=ROW, blocks_per_step=1)
def values_in_a_thread_local(steps: Steps) -> None:
    model, optimizer = new_trainer()
    local = threading.local()
    local.seen = {}
    for step in steps:
        train_step(model, optimizer)
        local.seen[step] = torch.zeros(WIDTH)  # leaks


@leak(holder="written", bytes_per_step=ROW, blocks_per_step=1)
def writer_thread_keeps_what_it_wrote(steps: Steps) -> None:
    pending: queue.Queue[torch.Tensor | None] = queue.Queue()

    def write() -> None:
        written = []
        while (values := pending.get()) is not None:
            written.append(values)
            pending.task_done()
        pending.task_done()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        model, optimizer = new_trainer()
        for _ in steps:
            train_step(model, optimizer)
            pending.put(model.hidden.bias.detach().clone())  # leaks
            pending.join()
    finally:
        pending.put(None)
        writer.join()


@leak(holder="made", bytes_per_step=ROW, blocks_per_step=1)
def helper_thread_makes_and_keeps(steps: Steps) -> None:
    wanted, done = threading.Semaphore(0), threading.Semaphore(0)
    ending = threading.Event()

    def prepare() -> None:
        made = []
        while wanted.acquire() and not ending.is_set():
            made.append(torch.ones(WIDTH))  # leaks
            done.release()

    helper = threading.Thread(target=prepare)
    helper.start()
    try:
        model, optimizer = new_trainer()
        for _ in steps:
            wanted.release()
            train_step(model, optimizer)
            done.acquire()
    finally:
        ending.set()
        wanted.release()
        helper.join()


@leak(holder="results", bytes_per_step=ROW, blocks_per_step=1)
def queue_that_nobody_reads(steps: Steps) -> None:
    model, optimizer = new_trainer()
    results: queue.SimpleQueue[torch.Tensor] = queue.SimpleQueue()
    for _ in steps:
        train_step(model, optimizer)
        results.put(torch.zeros(WIDTH))  # leaks


@leak(holder="past", bytes_per_step=ROW, blocks_per_step=1)
def default_argument_remembers(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for _ in steps:
        train_step(model, optimizer)
        remember(model.hidden.weight.detach().amax(0))  # leaks
    remember.__defaults__[0].clear()  # type: ignore[index]


@leak(holder="shown", bytes_per_step=ROW, blocks_per_step=1)
def class_attribute_is_shared(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for _ in steps:
        train_step(model, optimizer)
        Monitor().show(torch.ones(WIDTH))  # leaks
    Monitor.shown.clear()


@leak(holder="_registry", bytes_per_step=ROW, blocks_per_step=1)
def finalizers_hold_their_arguments(steps: Steps) -> None:
    class Run:
        pass

    model, optimizer = new_trainer()
    run = Run()
    for _ in steps:
        train_step(model, optimizer)
        weakref.finalize(run, torch.Tensor.numel, torch.zeros(WIDTH))  # leaks


@leak(holder="model", bytes_per_step=ROW, blocks_per_step=1)
def attributes_with_ever_new_names(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for step in steps:
        train_step(model, optimizer)
        setattr(model, f"snapshot_{step}", model.hidden.bias.detach() + 0)  # leaks


@leak(holder="trace", bytes_per_step=HIDDEN, blocks_per_step=1, phase="forward")
def module_appends_to_itself(steps: Steps) -> None:
    class Recorder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(WIDTH, WIDTH)
            self.head = nn.Linear(WIDTH, CLASSES)
            self.trace: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.body(x)
            self.trace.append(hidden.detach().abs())  # leaks
            return self.head(hidden)

    model = Recorder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps:
        train_step(model, optimizer)
