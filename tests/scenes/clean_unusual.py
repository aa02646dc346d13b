"""Clean loops whose memory moves in ways that mislead."""

from __future__ import annotations

import copy
import gc
import math
import random
import weakref
from collections import deque

import torch
from torch import nn
from torch.nn import functional as F

from scenes.parts import CLASSES, WIDTH, Classifier, batch, labels, train_step
from scenes.scene import Steps, clean


def new_trainer() -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


@clean(steps=160)
def states_of_the_last_five_steps(steps: Steps) -> None:
    model, optimizer = new_trainer()
    states: list[dict[str, torch.Tensor]] = []
    for _ in steps:
        train_step(model, optimizer)
        states.append({name: value.clone() for name, value in model.state_dict().items()})
        states = states[-5:]


@clean(steps=200, long_steps=400)
def entries_that_expire(steps: Steps) -> None:
    model, optimizer = new_trainer()
    entries: dict[int, torch.Tensor] = {}
    for step in steps:
        train_step(model, optimizer)
        entries[step] = torch.zeros(WIDTH)
        for old in [made for made in entries if step - made > 15 + step % 5]:
            del entries[old]


@clean(steps=240, long_steps=480)
def a_head_for_each_task(steps: Steps) -> None:
    model, optimizer = new_trainer()
    heads: dict[int, nn.Module] = {}
    task = random.Random(0)
    for _ in steps:
        number = task.randint(0, 15)
        if number not in heads:
            heads[number] = nn.Linear(WIDTH, CLASSES)
            optimizer.add_param_group({"params": list(heads[number].parameters())})
        optimizer.zero_grad()
        heads[number](model.hidden(batch())).sum().backward()
        optimizer.step()


@clean()
def layers_that_learn_their_width(steps: Steps) -> None:
    model = nn.Sequential(nn.LazyLinear(WIDTH), nn.ReLU(), nn.LazyLinear(CLASSES))
    model(batch())
    optimizer = torch.optim.Adam(model.parameters())
    for _ in steps:
        train_step(model, optimizer)


@clean(steps=100, source="forward", count=lambda n: n * 3 - 1)
def search_with_beams(steps: Steps) -> None:
    model = Classifier().eval()
    with torch.no_grad():
        for _ in steps:
            beams = [(0.0, batch(1))]
            for _ in range(3):
                scores = model(torch.cat([inputs for _, inputs in beams])).amax(1).tolist()
                grown = [
                    (score + k, inputs + 0.1 * k)
                    for score, (_, inputs) in zip(scores, beams, strict=True)
                    for k in range(3)
                ]
                beams = sorted(grown, key=lambda beam: beam[0])[-4:]


@clean(steps=240, long_steps=480)
def queue_whose_length_wavers(steps: Steps) -> None:
    model, optimizer = new_trainer()
    waiting: deque[torch.Tensor] = deque()
    arrivals = random.Random(3)
    for _ in steps:
        for _ in range(arrivals.randint(0, 3)):
            if len(waiting) < 20:
                waiting.append(batch())
        train_step(model, optimizer)
        if waiting:
            waiting.popleft()


@clean(steps=250, long_steps=500)
def pool_that_swells_and_shrinks(steps: Steps) -> None:
    model, optimizer = new_trainer()
    pool: list[torch.Tensor] = []
    for step in steps:
        wanted = round(20 * (1 + math.sin(step / 20)))
        while len(pool) < wanted:
            pool.append(torch.zeros(WIDTH))
        del pool[wanted:]
        train_step(model, optimizer)


@clean(steps=200, long_steps=400)
def epochs_that_get_longer(steps: Steps) -> None:
    model, optimizer = new_trainer()
    outputs: list[torch.Tensor] = []
    next_end, length = 10, 10
    for step in steps:
        train_step(model, optimizer)
        outputs.append(torch.zeros(WIDTH))
        if step + 1 == next_end:
            outputs.clear()
            length += 2
            next_end += length


@clean(steps=160)
def window_that_slides(steps: Steps) -> None:
    model, optimizer = new_trainer()
    past: list[torch.Tensor] = []
    for step in steps:
        past.append(torch.zeros(WIDTH))
        past = past[-(8 + step % 3) :]
        train_step(model, optimizer)


@clean(steps=120)
def target_network_replaced_now_and_then(steps: Steps) -> None:
    model, optimizer = new_trainer()
    target = copy.deepcopy(model)
    for step in steps:
        inputs = batch()
        optimizer.zero_grad()
        F.mse_loss(model(inputs), target(inputs).detach()).backward()
        optimizer.step()
        if step % 20 == 19:
            target = copy.deepcopy(model)


@clean(steps=100)
def trials_of_which_the_best_is_kept(steps: Steps) -> None:
    best, least = None, math.inf
    for trial in steps.epochs(5):
        model, optimizer = new_trainer()
        loss = math.inf
        for _ in trial:
            loss = float(train_step(model, optimizer))
        if loss < least:
            best, least = model, loss
    assert best is not None


@clean(steps=200, long_steps=400)
def cycles_that_the_collector_frees_by_itself(steps: Steps) -> None:
    class Node:
        def __init__(self) -> None:
            self.me = self
            self.values = torch.zeros(WIDTH)

    thresholds = gc.get_threshold()
    gc.set_threshold(50, 2, 2)
    try:
        model, optimizer = new_trainer()
        for _ in steps:
            Node()
            train_step(model, optimizer)
    finally:
        gc.set_threshold(*thresholds)


@clean(steps=120)
def cache_of_weak_values(steps: Steps) -> None:
    model, optimizer = new_trainer()
    known: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()
    recent: deque[torch.Tensor] = deque(maxlen=4)
    for step in steps:
        known[step] = values = torch.zeros(WIDTH)
        recent.append(values)
        train_step(model, optimizer)
    assert len(known) <= 5


@clean(steps=200, long_steps=400)
def features_of_a_frozen_backbone(steps: Steps) -> None:
    model, optimizer = new_trainer()
    features: dict[int, torch.Tensor] = {}
    for step in steps:
        sample = step % 40
        if sample not in features:
            with torch.no_grad():
                features[sample] = torch.relu(model.hidden(batch()))
        optimizer.zero_grad()
        F.cross_entropy(model.head(features[sample]), labels()).backward()
        optimizer.step()
