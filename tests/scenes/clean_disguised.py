"""Clean loops that look like leaks for most of their time."""

from __future__ import annotations

import copy
import random
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from scenes.parts import WIDTH, Classifier, batch, labels, train_step
from scenes.scene import Steps, clean


def new_trainer() -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


@clean(steps=200, long_steps=400)
def layers_thawed_at_even_distances(steps: Steps) -> None:
    layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(10)).requires_grad_(False)
    head = nn.Linear(WIDTH, 4)
    optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()])
    for step in steps:
        if step % 15 == 14 and step < 150:
            layers[step // 15].requires_grad_(True)
        optimizer.zero_grad()
        x = batch()
        for layer in layers:
            x = x + torch.tanh(layer(x))
        F.cross_entropy(head(x), labels()).backward()
        optimizer.step()


@clean(steps=200, long_steps=400)
def cache_with_a_budget_of_bytes(steps: Steps) -> None:
    model, optimizer = new_trainer()
    cache: OrderedDict[int, torch.Tensor] = OrderedDict()
    used = 0
    for step in steps:
        train_step(model, optimizer)
        cache[step] = torch.zeros(8 + (step * 7) % 17, WIDTH)
        used += cache[step].nbytes
        while used > 110_000:
            used -= cache.popitem(last=False)[1].nbytes


@clean(steps=200, long_steps=400)
def rows_for_words_that_get_rarer(steps: Steps) -> None:
    rng = random.Random(2)
    model, optimizer = new_trainer()
    table: dict[int, torch.Tensor] = {}
    for _ in steps:
        train_step(model, optimizer)
        for _ in range(4):
            word = min(int(1 / (rng.random() + 0.017)), 60)
            table[word] = table.get(word, torch.zeros(WIDTH)) * 0.9


@clean(steps=200, long_steps=400, needs="values")
def population_of_former_selves(steps: Steps) -> None:
    model, optimizer = new_trainer()
    pool: list[tuple[float, int, dict[str, torch.Tensor]]] = []
    for step in steps:
        loss = train_step(model, optimizer).item()
        if step % 10 == 0:
            pool = sorted([*pool, (loss, step, copy.deepcopy(model.state_dict()))])[:12]


@clean(steps=200, long_steps=400)
def restarts_and_an_ensemble_of_four(steps: Steps) -> None:
    model, _ = new_trainer()
    ensemble: list[nn.Module] = []
    for epoch in steps.epochs(40):
        optimizer = torch.optim.Adam(model.parameters())
        for _ in epoch:
            train_step(model, optimizer)
        ensemble = [*ensemble, copy.deepcopy(model)][-4:]


@clean(steps=200, long_steps=400)
def list_made_in_advance_that_is_overwritten(steps: Steps) -> None:
    model, optimizer = new_trainer()
    memory: list[torch.Tensor | None] = [None] * 120
    for step in steps:
        memory[step % len(memory)] = train_step(model, optimizer).repeat(WIDTH)
