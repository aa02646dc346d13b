"""The training steps that are timed, small on purpose: the less a kernel does, the more its block weighs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["STEPS", "mlp_step", "transformer_step"]


class MLP(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(layers - 1))
        self.out = nn.Linear(width, 10)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        for layer in self.hidden:
            x = functional.relu(layer(x))
        loss: Tensor = functional.cross_entropy(self.out(x), target)
        return loss


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm_attention(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.project(y.transpose(1, 2).reshape(batch, length, width)))
        narrow: Tensor = self.drop(self.narrow(functional.gelu(self.widen(self.norm_mlp(x)))))
        return x + narrow


class Transformer(nn.Module):
    def __init__(self, words: int, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words)

    def forward(self, words: Tensor, target: Tensor) -> Tensor:
        x = self.embed(words) + self.position
        for block in self.blocks:
            x = block(x)
        scores = self.head(self.norm(x))
        loss: Tensor = functional.cross_entropy(scores.flatten(0, 1), target.flatten())
        return loss


def _training_step(model: nn.Module, inputs: Tensor, target: Tensor) -> tuple[nn.Module, Callable[[], None]]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        loss = model(inputs, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step


def mlp_step(device: str = "cpu") -> tuple[nn.Module, Callable[[], None]]:
    """A 9-layer MLP of width 128 on a batch of 32, and its training step."""
    inputs, target = torch.randn(32, 128), torch.zeros(32, dtype=torch.long)
    return _training_step(MLP(128, 9).to(device), inputs.to(device), target.to(device))


def transformer_step(device: str = "cpu") -> tuple[nn.Module, Callable[[], None]]:
    """A 6-layer transformer of width 64 on a batch of 2 x 32 words, and its training step."""
    words = torch.zeros(2, 32, dtype=torch.long, device=device)
    return _training_step(Transformer(500, 64, 6, 4, 32).to(device), words, words)


STEPS = {"mlp": mlp_step, "transformer": transformer_step}
