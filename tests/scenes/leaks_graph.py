"""Leaks of what is attached to an autograd graph."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from scenes.parts import BATCH, CLASSES, WIDTH, Classifier, batch, labels, train_step
from scenes.scene import FLOAT, Steps, leak

HIDDEN = BATCH * WIDTH * FLOAT
LOGITS = BATCH * CLASSES * FLOAT
DOUBLE = 8  # a Python number that a graph keeps


class WithStatistics(nn.Module):
    """Keeps running statistics, and keeps them in the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Classifier()
        self.spread = torch.ones(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.inner.hidden(x))  # leaks in state_updated_in_the_graph
        self.spread = 0.9 * self.spread + 0.1 * hidden.var(0)
        return self.inner.head(hidden)


class Exponential(torch.autograd.Function):
    """Keeps its result on the context, where the end of backward does not let go of it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.result = torch.exp(x)  # leaks in context_attribute
        return ctx.result.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0] * ctx.result


@leak(holder="total", bytes_per_step=None, leads=False)
def validation_losses_in_a_total(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    held_out, answers = batch(), labels()
    total = torch.zeros(())
    for _ in steps:
        train_step(model, optimizer)
        hidden = torch.sigmoid(model.hidden(held_out))  # leaks
        total = total + F.cross_entropy(model.head(hidden), answers)
    assert total.requires_grad


@leak(holder="total", bytes_per_step=None)
def losses_in_a_running_total(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = torch.zeros(())
    for _ in steps:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch()), labels())
        loss.backward()
        optimizer.step()
        total = total + loss  # leaks


@leak(holder="kept", bytes_per_step=2 * HIDDEN + LOGITS + DOUBLE, leads=False)
def outputs_in_a_list(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters())
    kept = []
    for _ in steps:
        train_step(model, optimizer)
        logits = model(torch.ones(BATCH, WIDTH))
        kept.append(logits * 2)  # leaks


@leak(holder="history", bytes_per_step=FLOAT, blocks_per_step=1)
def losses_in_a_dict(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history: dict[str, list[torch.Tensor]] = {"loss": []}
    for _ in steps:
        optimizer.zero_grad()
        loss = model(batch()).square().mean()  # leaks
        loss.backward()
        optimizer.step()
        history["loss"].append(loss)


@leak(holder="recent", bytes_per_step=LOGITS, blocks_per_step=1)
def outputs_in_a_deque_without_limit(steps: Steps) -> None:
    model = nn.Linear(WIDTH, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recent: deque[torch.Tensor] = deque()
    for _ in steps:
        optimizer.zero_grad()
        logits = model(batch())  # leaks
        logits.sum().backward()
        optimizer.step()
        recent.append(logits)


@leak(
    holder="state", bytes_per_step=HIDDEN, source="forward", count=lambda n: n - 1
)  # met in the first forward
def hidden_state_carried(steps: Steps) -> None:
    cell = nn.Linear(WIDTH, WIDTH)
    state = torch.zeros(BATCH, WIDTH)
    inputs = batch()
    for _ in steps:
        state = torch.tanh(cell(inputs) + state)  # leaks


@leak(holder="spread", bytes_per_step=HIDDEN + 2 * DOUBLE, blocks_per_step=3)
def state_updated_in_the_graph(steps: Steps) -> None:
    model = WithStatistics()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps:
        train_step(model, optimizer)


@leak(holder="predictions", bytes_per_step=2 * HIDDEN + LOGITS, leads=False)
def evaluation_with_gradients_kept(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters())
    predictions = []
    for _ in steps:
        train_step(model, optimizer)
        model.eval()
        logits = model(torch.rand(BATCH, WIDTH))  # leaks
        predictions.append(logits)
        model.train()


@leak(
    holder="norms", bytes_per_step=2 * HIDDEN + FLOAT, blocks_per_step=3, leads=False
)  # with its input and gradient
def gradient_penalties_kept(steps: Steps) -> None:
    critic = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.Adam(critic.parameters())
    norms = []
    for _ in steps:
        samples = batch().requires_grad_()
        score = critic(samples).sum()
        (slope,) = torch.autograd.grad(score, samples, create_graph=True)
        penalty = (slope.norm(2, 1) - 1).pow(2).mean()  # leaks
        optimizer.zero_grad()
        (score + penalty).backward()
        optimizer.step()
        norms.append(penalty)


@leak(holder="losses", bytes_per_step=HIDDEN + FLOAT, blocks_per_step=2)
def context_attribute(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in steps:
        optimizer.zero_grad()
        loss = model.head(Exponential.apply(model.hidden(batch()))).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss)


@leak(holder="losses", bytes_per_step=2 * HIDDEN + LOGITS + FLOAT, blocks_per_step=4, leads=False)
def graph_retained_and_loss_kept(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in steps:
        optimizer.zero_grad()
        hidden = torch.sigmoid(model.hidden(batch()))  # leaks
        loss = model.head(hidden).square().mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        losses.append(loss)


@leak(holder="seen", bytes_per_step=HIDDEN, blocks_per_step=1, phase="backward")
def gradients_kept_by_a_tensor_hook(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for _ in steps:
        optimizer.zero_grad()
        hidden = model.hidden(batch())
        hidden.register_hook(seen.append)
        model.head(torch.relu(hidden)).sum().backward()  # leaks
        optimizer.step()
