"""Cycles through the autograd graph: those the collector frees, and those it never can."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from holder_world import address_of, ask, links


@pytest.fixture(autouse=True)
def collector_waits() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


class KeepsOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        ctx.y = y
        return y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


def test_context_that_keeps_its_own_output() -> None:
    y = KeepsOutput.apply(torch.randn(4, requires_grad=True))
    address, dead = address_of(y), weakref.ref(y)
    del y
    answer = ask(address)
    assert answer["status"] == "garbage"
    assert answer["root"] == "garbage cycle"
    assert {(edge, name) for edge, name, _ in links(answer)} >= {("grad_fn", None), ("attribute", "y")}
    foretold = answer["garbage"]["collectable"]
    gc.collect()
    assert foretold is (dead() is None) is True


def test_second_order_gradient_that_nobody_clears() -> None:
    weight = torch.randn(4, requires_grad=True)
    (weight**3).sum().backward(create_graph=True)
    address, dead = address_of(weight), weakref.ref(weight)
    del weight
    answer = ask(address)
    assert answer["status"] == "garbage"
    assert {(edge, name) for edge, name, _ in links(answer)} >= {("attribute", "grad"), ("grad_fn", None)}
    assert answer["garbage"]["collectable"] is False
    assert answer["retained_bytes"] >= 32
    gc.collect()
    assert dead() is not None
    dead().grad = None  # type: ignore[union-attr]


def test_batch_that_refers_to_itself() -> None:
    batch: dict[str, Any] = {"x": torch.randn(6)}
    batch["parent"] = batch
    address = address_of(batch["x"])
    del batch
    answer = ask(address)
    assert links(answer) == [("cycle", None, "dict"), ("item", "parent", "dict"), ("item", "x", "Tensor")]
    assert answer["garbage"] == {"cycle_links": 2, "collectable": True, "generation": 0}
    assert answer["retained_bytes"] == 24
