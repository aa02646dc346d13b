"""Loops that keep tensors on purpose, up to a limit or for a while."""

from __future__ import annotations

import functools
import random
from collections import deque

import torch

from scenes.parts import BATCH, WIDTH, Classifier, batch, labels, train_step
from scenes.scene import Steps, clean


def new_trainer() -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


@functools.lru_cache(maxsize=8)
def window(length: int) -> torch.Tensor:
    """A few of these are kept."""
    return torch.hann_window(length)


@clean(steps=90)
def deque_with_a_limit(steps: Steps) -> None:
    model, optimizer = new_trainer()
    recent: deque[torch.Tensor] = deque(maxlen=20)
    for _ in steps:
        recent.append(train_step(model, optimizer))


@clean(steps=200, long_steps=300)
def replay_in_a_deque(steps: Steps) -> None:
    model, optimizer = new_trainer()
    replay: deque[torch.Tensor] = deque(maxlen=100)
    for _ in steps:
        replay.append(torch.randn(WIDTH))
        optimizer.zero_grad()
        model(torch.stack(random.choices(replay, k=BATCH))).mean().backward()
        optimizer.step()


@clean(steps=160)
def replay_in_a_list_that_wraps(steps: Steps) -> None:
    model, optimizer = new_trainer()
    replay: list[torch.Tensor] = []
    for step in steps:
        entry = torch.randn(WIDTH)
        if len(replay) < 64:
            replay.append(entry)
        else:
            replay[step % 64] = entry
        train_step(model, optimizer)


@clean(steps=160)
def replay_that_replaces_at_random(steps: Steps) -> None:
    model, optimizer = new_trainer()
    replay: list[torch.Tensor] = []
    choice = random.Random(0)
    for _ in steps:
        entry = torch.randn(WIDTH)
        if len(replay) < 48:
            replay.append(entry)
        else:
            replay[choice.randrange(48)] = entry
        train_step(model, optimizer)


@clean()
def replay_in_preallocated_storage(steps: Steps) -> None:
    model, optimizer = new_trainer()
    storage = torch.zeros(1000, WIDTH)
    for step in steps:
        storage[step % 1000] = torch.randn(WIDTH)
        train_step(model, optimizer)


@clean(steps=200, long_steps=400)
def reservoir_of_samples(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept: list[torch.Tensor] = []
    choice = random.Random(1)
    for step in steps:
        if len(kept) < 20:
            kept.append(batch(1))
        elif (place := choice.randrange(step + 1)) < 20:
            kept[place] = batch(1)
        train_step(model, optimizer)


@clean(steps=180, long_steps=330)
def replay_that_drops_its_older_half(steps: Steps) -> None:
    model, optimizer = new_trainer()
    replay: list[torch.Tensor] = []
    for _ in steps:
        replay.append(torch.randn(WIDTH))
        if len(replay) >= 60:
            del replay[:30]
        train_step(model, optimizer)


@clean(steps=170, long_steps=300)
def epoch_buffer_beside_a_block_that_stays(steps: Steps) -> None:
    model, optimizer = new_trainer()
    first: list[torch.Tensor] = []
    for epoch in steps.epochs(30):
        outputs = []
        for _ in epoch:
            train_step(model, optimizer)
            outputs.append(torch.rand(BATCH))
            if not first:
                first.append(outputs[0])


@clean(steps=160, needs="values")
def epoch_losses_emptied_at_its_end(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for epoch in steps.epochs(40):
        losses = []
        for _ in epoch:
            losses.append(train_step(model, optimizer).clone())
        assert torch.stack(losses).mean() > 0


@clean(steps=160)
def outputs_cleared_after_validation(steps: Steps) -> None:
    model, optimizer = new_trainer()
    outputs: list[torch.Tensor] = []
    for step in steps:
        train_step(model, optimizer)
        with torch.no_grad():
            outputs.append(model(batch()))
        if step % 25 == 24:
            outputs.clear()


@clean(steps=200, long_steps=480)
def metric_reset_after_each_epoch(steps: Steps) -> None:
    model, optimizer = new_trainer()
    hits: list[torch.Tensor] = []
    for epoch in steps.epochs(60):
        for _ in epoch:
            train_step(model, optimizer)
            with torch.no_grad():
                hits.append((model(batch()).argmax(1) == labels()).float())
        assert torch.cat(hits).numel() > 0
        hits = []


@clean(steps=120)
def least_recently_used_cache(steps: Steps) -> None:
    window.cache_clear()
    model, optimizer = new_trainer()
    order = random.Random(4)
    for _ in steps:
        window(order.randint(1, 40))
        train_step(model, optimizer)
    window.cache_clear()


@clean(steps=120)
def own_cache_that_evicts(steps: Steps) -> None:
    model, optimizer = new_trainer()
    cache: dict[int, torch.Tensor] = {}
    order = random.Random(5)
    for _ in steps:
        cache[order.randint(1, 400)] = torch.zeros(WIDTH)
        while len(cache) > 12:
            del cache[next(iter(cache))]
        train_step(model, optimizer)


@clean(steps=150)
def dataset_cached_in_the_first_epoch(steps: Steps) -> None:
    model, optimizer = new_trainer()
    loaded: dict[int, torch.Tensor] = {}
    for step in steps:
        index = step % 30
        if index not in loaded:
            loaded[index] = batch()
        optimizer.zero_grad()
        model(loaded[index]).square().mean().backward()
        optimizer.step()


@clean(steps=100)
def past_and_present_batch(steps: Steps) -> None:
    model, optimizer = new_trainer()
    previous = batch()
    for _ in steps:
        current = batch()
        optimizer.zero_grad()
        (model(current) - model(previous).detach()).square().mean().backward()
        optimizer.step()
        previous = current


@clean(steps=120)
def queue_of_negatives(steps: Steps) -> None:
    model, optimizer = new_trainer()
    negatives = torch.zeros(0, 4)
    for _ in steps:
        optimizer.zero_grad()
        keys = model(batch())
        (keys @ negatives.T).logsumexp(1).mean().backward() if len(negatives) else keys.mean().backward()
        optimizer.step()
        negatives = torch.cat([negatives, keys.detach()])[-64:]


@clean(steps=120)
def rollouts_of_varying_length(steps: Steps) -> None:
    model, optimizer = new_trainer()
    length = random.Random(6)
    for _ in steps:
        rollout = [model(batch(1)) for _ in range(length.randint(1, 30))]
        optimizer.zero_grad()
        torch.cat(rollout).mean().backward()
        optimizer.step()


@clean(steps=120)
def prioritised_queue_that_drops_the_worst(steps: Steps) -> None:
    model, optimizer = new_trainer()
    best: list[tuple[float, int, torch.Tensor]] = []
    for step in steps:
        loss = float(train_step(model, optimizer))
        best.append((loss, step, model.hidden.bias.detach().clone()))
        best = sorted(best, key=lambda entry: entry[0])[:5]
