"""A full backward hook, and a backward pass that makes a graph and ends before the module's input: that .grad is
reset, as torch's own warning says, is not enough."""

from __future__ import annotations

import torch
from torch import nn


def main() -> None:
    body, head = nn.Linear(16, 16), nn.Linear(16, 4)
    head.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.01)
    for _ in range(40):
        loss = head(body(torch.rand(8, 16))).square().mean()  # leaks
        optimizer.zero_grad()
        loss.backward(create_graph=True, inputs=list(head.parameters()))
        optimizer.step()
        for parameter in head.parameters():
            parameter.grad = None


main()
