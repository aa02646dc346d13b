"""Loops whose tensors change their size, by design: lengths, curricula, resolutions, growing models."""

from __future__ import annotations

import random

import torch
from torch import nn
from torch.nn import functional as F

from scenes.parts import BATCH, CLASSES, WIDTH, Classifier, batch, labels, train_step
from scenes.scene import Steps, clean


def new_trainer() -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


class Rotary(nn.Module):
    """Keeps the table of the longest sequence so far, and slices it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.zeros(0, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) > len(self.table):
            self.table = torch.outer(torch.arange(len(x)).float(), torch.ones(WIDTH)).cos()
        return x * self.table[: len(x)]


class Attention(nn.Module):
    """One head with a cache of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: torch.Tensor, cache: list[torch.Tensor]) -> torch.Tensor:
        query, key, value = self.project(x).chunk(3, -1)
        if cache:
            key, value = torch.cat([cache[0], key], 1), torch.cat([cache[1], value], 1)
        cache[:] = [key, value]
        return F.scaled_dot_product_attention(query, key, value)


@clean(steps=80)
def variable_lengths(steps: Steps) -> None:
    model, optimizer = new_trainer()
    lengths = random.Random(0)
    for _ in steps:
        train_step(model, optimizer, rows=lengths.randint(2, 64))


@clean(steps=80)
def lengths_in_buckets_with_a_mask_each(steps: Steps) -> None:
    model, optimizer = new_trainer()
    lengths = random.Random(1)
    masks: dict[int, torch.Tensor] = {}
    for _ in steps:
        length = 8 * lengths.randint(1, 6)
        if length not in masks:
            masks[length] = torch.ones(length, length).tril()
        train_step(model, optimizer, rows=length)


@clean(steps=80)
def table_of_the_longest_sequence(steps: Steps) -> None:
    rotary = Rotary()
    model, optimizer = new_trainer()
    lengths = random.Random(2)
    for _ in steps:
        optimizer.zero_grad()
        model(rotary(batch(lengths.randint(4, 40)))).mean().backward()
        optimizer.step()


@clean(steps=80)
def sequences_that_get_longer(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for step in steps:
        train_step(model, optimizer, rows=4 + step)


@clean(steps=80)
def curriculum_that_doubles_the_batch(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for step in steps:
        train_step(model, optimizer, rows=4 * 2 ** (step * 4 // steps.count))


@clean(steps=60)
def images_that_get_larger(steps: Steps) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in steps:
        side = 8 + 4 * (step * 5 // steps.count)
        optimizer.zero_grad()
        F.cross_entropy(model(torch.rand(4, 1, side, side)), labels(4)).backward()
        optimizer.step()


@clean(steps=90)
def layers_added_at_milestones(steps: Steps) -> None:
    layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH)])
    head = nn.Linear(WIDTH, CLASSES)
    optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()])
    for step in steps:
        if step and step % (steps.count // 4) == 0:
            layers.append(nn.Linear(WIDTH, WIDTH))
            optimizer.add_param_group({"params": list(layers[-1].parameters())})
        hidden = batch()
        for layer in layers:
            hidden = torch.relu(layer(hidden))
        optimizer.zero_grad()
        head(hidden).square().mean().backward()
        optimizer.step()


@clean(steps=100)
def points_densified_now_and_then(steps: Steps) -> None:
    points = nn.Parameter(torch.randn(16, 3))
    optimizer = torch.optim.SGD([points], lr=0.01)
    for step in steps:
        optimizer.zero_grad()
        (points.square().sum() + points.mean()).backward()
        optimizer.step()
        if step % 10 == 9 and len(points) < 256:
            points = nn.Parameter(torch.cat([points.detach(), points.detach() + 0.1]))
            optimizer.param_groups[0]["params"] = [points]


@clean(steps=60, source="forward", count=lambda n: n - 1)
def cache_of_keys_and_values_for_each_answer(steps: Steps) -> None:
    attention = Attention().eval()
    cache: list[torch.Tensor] = []
    with torch.no_grad():
        for step in steps:
            if step % 12 == 0:
                cache.clear()
            attention(torch.randn(1, 1, WIDTH), cache)


@clean(steps=60, source="forward", count=lambda n: n - 1)
def cache_of_keys_and_values_that_slides(steps: Steps) -> None:
    attention = Attention().eval()
    cache: list[torch.Tensor] = []
    with torch.no_grad():
        for _ in steps:
            attention(torch.randn(1, 1, WIDTH), cache)
            cache[:] = [part[:, -8:].contiguous() for part in cache]


@clean(steps=60, source="forward", count=lambda n: n - 1)
def static_cache_of_keys_and_values(steps: Steps) -> None:
    project = nn.Linear(WIDTH, 2 * WIDTH).eval()
    keys, values = torch.zeros(1, 512, WIDTH), torch.zeros(1, 512, WIDTH)
    with torch.no_grad():
        for step in steps:
            keys[:, step % 512], values[:, step % 512] = project(torch.randn(1, WIDTH)).chunk(2, -1)


@clean(steps=60, source="explicit")
def generation_of_answers_marked_by_hand(steps: Steps) -> None:
    import leakguard

    attention = Attention().eval()
    with torch.no_grad():
        for _ in steps:
            cache: list[torch.Tensor] = []
            for _ in range(12):
                attention(torch.randn(1, 1, WIDTH), cache)
            leakguard.step()


@clean(steps=120)
def a_pool_of_shapes_that_is_complete_early(steps: Steps) -> None:
    model, optimizer = new_trainer()
    pool: dict[int, torch.Tensor] = {}
    order = random.Random(3)
    for _ in steps:
        rows = order.randint(1, 24)
        scratch = pool.setdefault(rows, torch.empty(rows, WIDTH))
        torch.rand(rows, WIDTH, out=scratch)
        optimizer.zero_grad()
        model(scratch).sum().backward()
        optimizer.step()


@clean(steps=60)
def one_long_sequence_among_short_ones(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for step in steps:
        train_step(model, optimizer, rows=400 if step % 17 == 16 else BATCH)


@clean(steps=160)
def batches_joined_of_ever_more_parts(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for step in steps:
        inputs = batch(4)
        for _ in range(step):
            inputs = torch.cat([inputs, batch(1)])
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()


@clean(steps=160)
def joined_up_to_a_limit(steps: Steps) -> None:
    model, optimizer = new_trainer()
    recent = torch.empty(0, WIDTH)
    for _ in steps:
        recent = torch.cat([recent, batch(2)])[-64:].clone()
        train_step(model, optimizer)
