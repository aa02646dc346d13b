"""An epoch's outputs are collected with the loss in them, where a number was to be logged."""

from __future__ import annotations

import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def run_epoch(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[dict[str, object]]:
    epoch_output = []
    for _ in range(40):
        loss = model(torch.rand(8, 16, device=DEVICE)).square().mean()  # leaks
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch_output.append({"loss": loss.detach(), "log": {"rate": 0.01}})
    return epoch_output


net = nn.Linear(16, 16, device=DEVICE)
run_epoch(net, torch.optim.SGD(net.parameters(), lr=0.01))
