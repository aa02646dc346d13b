"""A test runner keeps the error of each failed try; its own traceback is cleared, that of its __context__ is not."""

from __future__ import annotations

import torch
from torch import nn

import leakguard

reports = []


def forward(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    logits = model(batch).detach()  # leaks
    if logits.numel():
        raise MemoryError("out of memory")
    return logits


def attempt(model: nn.Module, batch: torch.Tensor) -> None:
    try:
        forward(model, batch)
    except MemoryError:
        raise RuntimeError("the step failed")


def main() -> None:
    model = nn.Linear(16, 256)
    for _ in range(24):
        try:
            attempt(model, torch.rand(32, 16))
        except RuntimeError as error:
            error.__traceback__ = None
            reports.append(error)
        leakguard.step()


main()
