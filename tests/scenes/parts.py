"""Models and data that many scenes share; small, so that a step costs a fraction of a millisecond."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 16
BATCH = 8
CLASSES = 4


class Classifier(nn.Module):
    """Two layers; the first one's output is what a graph keeps."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.hidden(x)))


def batch(rows: int = BATCH, width: int = WIDTH) -> torch.Tensor:
    """Random inputs."""
    return torch.randn(rows, width)


def labels(rows: int = BATCH) -> torch.Tensor:
    """Random classes."""
    return torch.randint(0, CLASSES, (rows,))


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, rows: int = BATCH) -> torch.Tensor:
    """One ordinary step; the loss comes back without its graph."""
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch(rows)), labels(rows))
    loss.backward()
    optimizer.step()
    return loss.detach()
