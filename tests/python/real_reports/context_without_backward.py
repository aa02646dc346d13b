"""A reversible block keeps its output on ctx until its backward, which never comes where no loss depends on it."""

from __future__ import annotations

import gc

import torch
from torch import nn


class RevBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2  # leaks
        ctx.y = y
        return y

    @staticmethod
    def backward(ctx, gradient):
        del ctx.y
        return gradient * 2


def main() -> None:
    body, side, head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
    for _ in range(40):
        hidden = body(torch.rand(8, 16))
        used, _unused = RevBlock.apply(hidden), RevBlock.apply(side(hidden.detach()))
        loss = head(used).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


gc.disable()
main()
