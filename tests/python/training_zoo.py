"""Small training loops of five kinds, that tell a visitor when the forward is done, when the backward pass is half
through, and when the step ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

Visit = Callable[[str], None]


@dataclass
class Loop:
    """A model, its optimizers, and one step; `step(visit)` calls `visit` at the moments named above."""

    model: nn.Module
    optimizers: list[torch.optim.Optimizer]
    step: Callable[[Visit], None]
    middle: nn.Parameter
    inputs: dict[str, torch.Tensor] = field(default_factory=dict)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(128, 256)
        self.norm = nn.BatchNorm1d(256)
        self.last = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.dropout(F.gelu(self.norm(self.first(x))), 0.1))


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3),
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.mlp(x)


class Transformer(nn.Module):
    def __init__(self, reentrant: bool = False) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.embed = nn.Embedding(100, 64)
        self.blocks = nn.ModuleList([Block(64) for _ in range(3)])
        self.head = nn.Linear(64, 100, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.lstm = nn.LSTM(32, 64, num_layers=2, batch_first=True)
        self.head = nn.Linear(64, 50)

    def forward(self, tokens: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        out, state = self.lstm(self.embed(tokens), state)
        return self.head(out), state


class Gan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.maker = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 64))
        self.judge = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))


def supervised(
    model: nn.Module, middle: nn.Parameter, x: torch.Tensor, y: torch.Tensor, **settings: Any
) -> Loop:
    optimizer = torch.optim.AdamW(model.parameters(), **settings)

    def step(visit: Visit) -> None:
        out = model(x)
        loss = F.cross_entropy(out.flatten(0, -2), y.flatten())
        visit("after forward")
        optimizer.zero_grad()
        with halfway(middle, visit):
            loss.backward()
        optimizer.step()
        visit("step end")

    return Loop(model, [optimizer], step, middle, {"x": x, "y": y})


class halfway:
    """Visits when the gradient of a parameter has been accumulated."""

    def __init__(self, middle: nn.Parameter, visit: Visit) -> None:
        self.hook = middle.register_post_accumulate_grad_hook(lambda _: visit("mid-backward"))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.hook.remove()


def mlp(device: str) -> Loop:
    model = Mlp().to(device)
    x = torch.randn(64, 128, device=device)
    return supervised(model, model.norm.weight, x, torch.randint(0, 10, (64,), device=device))


def cnn(device: str) -> Loop:
    model = Cnn().to(device)
    x = torch.randn(16, 3, 16, 16, device=device)
    middle = model.features[1].weight
    return supervised(model, middle, x, torch.randint(0, 10, (16,), device=device))


def transformer(device: str, reentrant: bool = False) -> Loop:
    model = Transformer(reentrant).to(device)
    tokens = torch.randint(0, 100, (8, 32), device=device)
    return supervised(model, model.blocks[1].mlp[0].weight, tokens, tokens.clone())


def lstm(device: str) -> Loop:
    model = Lstm().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    tokens = torch.randint(0, 50, (8, 20), device=device)
    carried: list[Any] = [None]

    def step(visit: Visit) -> None:
        out, state = model(tokens, carried[0])
        loss = F.cross_entropy(out.flatten(0, 1), tokens.flatten())
        carried[0] = tuple(part.detach() for part in state)
        visit("after forward")
        optimizer.zero_grad()
        with halfway(model.head.weight, visit):
            loss.backward()
        optimizer.step()
        visit("step end")

    return Loop(model, [optimizer], step, model.head.weight, {"tokens": tokens})


def gan(device: str) -> Loop:
    model = Gan().to(device)
    makes = torch.optim.Adam(model.maker.parameters())
    judges = torch.optim.RMSprop(model.judge.parameters(), momentum=0.5)
    real = torch.randn(32, 64, device=device)

    def step(visit: Visit) -> None:
        fake = model.maker(torch.randn(32, 16, device=device))
        ones, zeros = torch.ones(32, 1, device=device), torch.zeros(32, 1, device=device)
        loss = F.binary_cross_entropy_with_logits(model.judge(real), ones)
        loss = loss + F.binary_cross_entropy_with_logits(model.judge(fake.detach()), zeros)
        visit("after forward")
        judges.zero_grad()
        loss.backward()
        judges.step()
        makes.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model.judge(fake), ones)
        with halfway(model.judge[2].weight, visit):
            loss.backward()
        makes.step()
        visit("step end")

    return Loop(model, [makes, judges], step, model.judge[2].weight, {"real": real})


LOOPS: dict[str, Callable[[str], Loop]] = {
    "mlp": mlp,
    "cnn": cnn,
    "transformer": transformer,
    "reentrant": lambda device: transformer(device, reentrant=True),
    "lstm": lstm,
    "gan": gan,
}


def state_tensors(optimizer: torch.optim.Optimizer) -> Iterator[tuple[nn.Parameter, torch.Tensor]]:
    for parameter, state in optimizer.state.items():
        for value in state.values():
            if isinstance(value, torch.Tensor):
                yield parameter, value
