"""Where tensors were born, as the ledger has it: for the tests of call sites.

Expected lines are marked in the test's own source by a comment: `x = torch.zeros(3)  # @plain`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import leakguard
from leakguard._native import core
from leakguard.report import Place
from leakguard.sites import site_of

_MARK = re.compile(r"#\s*@(\w+)")


def marked_lines(file: str) -> dict[str, int]:
    """Line number by mark."""
    found: dict[str, int] = {}
    for number, text in enumerate(Path(file).read_text(encoding="utf-8").splitlines(), 1):
        for mark in _MARK.findall(text):
            assert mark not in found, f"{file} has two marks @{mark}"
            found[mark] = number
    return found


@contextmanager
def watching(*modules: torch.nn.Module, user_code: tuple[str, ...] = ()) -> Iterator[None]:
    guard = leakguard.watch(*modules, user_code=user_code)
    try:
        yield
    finally:
        guard.stop()


@dataclass(frozen=True)
class Birth:
    """One live block: its group's place, and what the block itself knows."""

    place: Place
    module: str
    node: str
    group: int


def born(tensor: torch.Tensor) -> Birth:
    """How the tensor's memory was born; fails when the ledger does not know it."""
    address = tensor.untyped_storage().data_ptr()
    for row in core.blocks():
        if row[0] == address:
            _, _, _, _, group, module, node, *_ = row
            return Birth(site_of(group).place, module, node, group)
    raise AssertionError(f"the ledger does not know the block of a tensor of shape {tuple(tensor.shape)}")


def groups_born_in(body: Callable[[], Any], phase: str) -> list[tuple[Any, ...]]:
    """Every group of that phase that was new while the body ran, whether or not its blocks live."""
    before = core.group_count()
    body()
    return [core.group(group) for group in range(before, core.group_count()) if core.group(group)[1] == phase]
