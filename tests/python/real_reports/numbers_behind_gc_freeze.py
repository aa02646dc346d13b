"""A list of numbers is added to with every request, and nothing reads it; gc.freeze() hid it from the collector."""

from __future__ import annotations

import gc

import torch
from torch import nn


class Cache:
    def __init__(self) -> None:
        self.new_block_ids: list[int] = []

    def allocate(self, request: int) -> None:
        self.new_block_ids.extend(range(request * 64, request * 64 + 64))


cache = Cache()
gc.freeze()
model = nn.Linear(16, 16)
for number in range(40):
    cache.allocate(number)
    with torch.no_grad():
        model(torch.rand(4, 16))
