"""Leak checks in pytest: the first test passes; the second would fail and name the list that keeps every loss.

python -m pytest examples/test_training_step.py
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

losses: list[torch.Tensor] = []


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))


def train_step(model: nn.Module) -> torch.Tensor:
    loss = model(torch.randn(16, 32)).square().mean()
    model.zero_grad()
    loss.backward()
    return loss


@pytest.mark.limit_gpu_leaks("0 B")
def test_training_step_releases_its_memory(model: nn.Module) -> None:
    train_step(model)


@pytest.mark.limit_gpu_leaks("0 B")
@pytest.mark.xfail(reason="losses keeps the tensor of every step; append loss.item() instead", strict=True)
def test_history_of_losses(model: nn.Module) -> None:
    losses.append(train_step(model))
