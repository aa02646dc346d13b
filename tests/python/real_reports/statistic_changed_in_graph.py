"""A statistic of the module is changed in place with the loss, and so becomes part of each step's graph."""

from __future__ import annotations

import torch
from torch import nn


class Stats:
    def __init__(self) -> None:
        self.average_loss = torch.zeros(())


stats = Stats()


def main() -> None:
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(40):
        loss = model(torch.rand(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stats.average_loss.add_(loss)


main()
