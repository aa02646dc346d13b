"""A library's trainer adds up the losses that it is given without detaching them; the user's own code is clean."""

from __future__ import annotations

import torch
from torch import nn


class Trainer:
    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(self, batches: list[torch.Tensor]) -> torch.Tensor:
        tr_loss = torch.zeros(())
        for batch in batches:
            loss = self.model(batch).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            tr_loss = tr_loss + loss  # leaks
        return tr_loss


Trainer(nn.Linear(16, 16)).train([torch.rand(8, 16) for _ in range(40)])
