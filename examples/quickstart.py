"""A small training loop with a leak in it: the history of outputs keeps every step's autograd graph alive.

python -m leakguard run examples/quickstart.py
"""

from __future__ import annotations

import os

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STEPS = int(os.environ.get("QUICKSTART_STEPS", "40"))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 256)
        self.fc2 = nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.fc1(x))
        return self.fc2(h)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.encoder(x)))


history = []


def train() -> None:
    torch.manual_seed(0)
    model = Classifier().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        x = torch.randn(64, 784, device=DEVICE)
        y = torch.randint(0, 10, (64,), device=DEVICE)
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(torch.softmax(model(x), dim=1))  # looks like a log of predictions, keeps graphs
        if step % 10 == 9:
            print(f"step {step + 1:3d}  loss {loss.item():.3f}")


if __name__ == "__main__":
    train()
