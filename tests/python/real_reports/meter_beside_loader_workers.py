"""A meter adds up losses with their graph in the main process; the workers of the loader keep nothing."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AverageMeter:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.sum, self.count = torch.zeros(()), 0

    def update(self, value: torch.Tensor) -> None:
        self.sum = self.sum + value  # leaks
        self.count += 1


def main() -> None:
    loader = DataLoader(TensorDataset(torch.rand(320, 16)), batch_size=8, num_workers=1)
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    meter = AverageMeter()
    for (batch,) in loader:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss)


main()
