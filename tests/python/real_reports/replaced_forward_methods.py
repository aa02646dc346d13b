"""Each run makes large layers, replaces their forward by a method of a wrapper, and drops the model when it is done."""

from __future__ import annotations

import torch

import leakguard


class Layer:
    def __init__(self) -> None:
        self.weight = torch.rand(64, 64)  # leaks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class Offloaded:
    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.plain = layer.forward
        layer.forward = self.forward  # type: ignore[method-assign]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.plain(x)


def generate() -> float:
    layer = Layer()
    Offloaded(layer)
    return layer.forward(torch.ones(8, 64)).mean().item()


for _ in range(24):
    generate()
    leakguard.step()
