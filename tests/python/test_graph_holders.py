"""Tensors held through the autograd graph: saved tensors, contexts, hooks, long graphs, several owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from holder_world import address_of, ask, chain, links
from torch.utils.checkpoint import checkpoint

KEEP: dict[str, Any] = {}
OTHER: dict[str, Any] = {}
FIRST = ("module global", "KEEP", "dict")
LOSS = ("item", "loss", "Tensor")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    KEEP.clear()
    OTHER.clear()


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def test_input_of_a_linear_layer() -> None:
    x = torch.randn(3, 8)
    address = address_of(x)
    KEEP["loss"] = torch.nn.Linear(8, 4)(x).sum()
    del x
    answer = ask(address)
    assert links(answer) == [
        FIRST,
        LOSS,
        ("grad_fn", None, "SumBackward0"),
        ("next function", None, "AddmmBackward0"),
        ("saved tensor", "mat1", "Tensor"),
    ]
    assert answer["retained_by"][-1]["detail"] == "[3, 8] float32"
    assert answer["retained_by"][1]["detail"] == "[] float32, requires grad"


def test_output_of_an_activation() -> None:
    y = (leaf(8) * 2).relu()
    address = address_of(y)
    KEEP["loss"] = y.sum()
    del y
    assert chain(address)[-2:] == [
        ("next function", None, "ReluBackward0"),
        ("saved tensor", "result", "Tensor"),
    ]


def test_factor_of_a_matrix_product() -> None:
    x = torch.randn(4, 4)
    address = address_of(x)
    KEEP["loss"] = (x @ leaf(4, 4)).sum()
    del x
    assert chain(address)[-2:] == [("next function", None, "MmBackward0"), ("saved tensor", "self", "Tensor")]


def test_list_of_saved_tensors() -> None:
    x = torch.randn(4)
    address = address_of(x)
    index = torch.tensor([0, 2])
    KEEP["loss"] = leaf(4)[index].sum()
    address = address_of(index)
    del x, index
    assert chain(address)[-2:] == [
        ("next function", None, "IndexBackward0"),
        ("saved tensor", "indices", "Tensor"),
    ]


def test_running_total_of_200_steps_is_one_link() -> None:
    total: Any = 0
    weight, first = leaf(4), 0
    for _ in range(200):
        x = torch.randn(4)
        first = first or address_of(x)
        total = total + (x * weight).sum()
    del x
    answer = ask(first)
    assert links(answer) == [
        ("local", "total", "Tensor"),
        ("grad_fn", None, "AddBackward0"),
        ("next function", None, "MulBackward0"),
        ("saved tensor", "self", "Tensor"),
    ]
    assert answer["retained_by"][2]["count"] == 201
    assert answer["retained_by"][answer["holder"]]["name"] == "total"
    assert answer["retained_bytes"] == 200 * 16 + 4


class Saving(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x * 1)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


class Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.kept = [x * 1]
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


def test_save_for_backward() -> None:
    y = Saving.apply(leaf(4))
    address = address_of(y.grad_fn.saved_tensors[0])
    KEEP["loss"] = y.sum()
    del y
    assert chain(address)[-2:] == [
        ("next function", None, "SavingBackward"),
        ("saved tensor", None, "Tensor"),
    ]


def test_attribute_of_a_context() -> None:
    y = Keeping.apply(leaf(4))
    address = address_of(y.grad_fn.kept[0])
    KEEP["loss"] = y.sum()
    del y
    answer = ask(address)
    assert links(answer)[-3:] == [
        ("next function", None, "KeepingBackward"),
        ("attribute", "kept", "list"),
        ("item", None, "Tensor"),
    ]
    assert answer["retained_by"][answer["holder"]]["name"] == "KEEP"


def closing_over(tensor: torch.Tensor) -> Callable[..., None]:
    def hook(*_: Any) -> None:
        assert tensor is not None

    return hook


def test_hooks_of_tensors_and_nodes() -> None:
    big = torch.randn(100)
    address = address_of(big)
    w, y, z, p = leaf(4), leaf(4) * 2, leaf(4) * 2, leaf(4)
    ends = [("closure", "tensor", "Tensor")]

    w.register_hook(closing_over(big))
    KEEP["w"] = w
    del big, w
    assert chain(address) == [FIRST, ("item", "w", "Tensor"), ("hook", "tensor_hook", "function"), *ends]

    big = KEEP.pop("w")._backward_hooks.popitem()[1].__closure__[0].cell_contents
    y.register_hook(closing_over(big))
    KEEP["loss"] = y.sum()
    del big, y
    assert chain(address)[-2:] == [("hook", "node_hook", "function"), *ends]

    big = torch.randn(100)
    address = address_of(big)
    z.grad_fn.register_hook(closing_over(big))  # type: ignore[union-attr]
    KEEP["loss"] = z.sum()
    del big, z
    assert chain(address)[-3:] == [
        ("next function", None, "MulBackward0"),
        ("hook", "node_hook", "function"),
        *ends,
    ]

    big = torch.randn(100)
    address = address_of(big)
    p.register_post_accumulate_grad_hook(closing_over(big))
    KEEP["p"] = p
    del big, p
    assert chain(address) == [
        FIRST,
        ("item", "p", "Tensor"),
        ("hook", "post_accumulate_grad_hook", "function"),
        *ends,
    ]


def test_leaf_held_by_its_gradient_accumulator() -> None:
    weight = leaf(4)
    address = address_of(weight)
    KEEP["loss"] = weight.sum()
    del weight
    assert chain(address)[-2:] == [
        ("next function", None, "AccumulateGrad"),
        ("attribute", "variable", "Tensor"),
    ]


def test_freed_graph_is_silent() -> None:
    x = torch.randn(4)
    address = address_of(x)
    loss = (leaf(4) * x).sum()
    loss.backward()
    KEEP["loss"], KEEP["x"] = loss, x
    del x, loss
    assert chain(address) == [FIRST, ("item", "x", "Tensor")]


def test_retained_graph() -> None:
    x = torch.randn(4)
    address = address_of(x)
    loss = (leaf(4) * x).sum()
    loss.backward(retain_graph=True)
    KEEP["loss"] = loss
    del x, loss
    assert chain(address)[-2:] == [
        ("next function", None, "MulBackward0"),
        ("saved tensor", "other", "Tensor"),
    ]


def test_what_a_saved_tensor_hook_packed() -> None:
    class Packed:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor * 1

    packed: list[int] = []

    def pack(tensor: torch.Tensor) -> Packed:
        value = Packed(tensor)
        packed.append(address_of(value.tensor))
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value.tensor):
        KEEP["loss"] = leaf(4).exp().sum()
    assert chain(packed[0])[-3:] == [
        ("next function", None, "ExpBackward0"),
        ("packed tensor", "result", "Packed"),
        ("attribute", "tensor", "Tensor"),
    ]


def test_input_of_a_checkpointed_block() -> None:
    layer, x = torch.nn.Linear(4, 4), leaf(2, 4) * 1
    address = address_of(x)
    KEEP["loss"] = checkpoint(layer, x, use_reentrant=False).sum()
    del x
    found = chain(address)
    assert found[:3] == [FIRST, LOSS, ("grad_fn", None, "SumBackward0")]
    assert found[-1][2] == "Tensor"


def test_in_place_writes_into_slices() -> None:
    base, weight = torch.zeros(4, 4), leaf(4)
    base[0] = weight * 2
    base[1].mul_(weight)
    view = base[3]
    view.mul_(weight)
    KEEP["loss"] = base.sum()
    address = address_of(weight)
    del base, view, weight
    assert chain(address)[:2] == [FIRST, LOSS]


def test_two_totals_that_share_one_graph() -> None:
    x = torch.randn(4)
    address = address_of(x)
    loss = (leaf(4) * x).sum()
    KEEP["total"], OTHER["total"] = loss * 1, loss * 2
    del x, loss
    answer = ask(address, most_owners=4)
    [second] = answer["other_owners"]
    roots = {answer["root"], second["root"]}
    assert roots == {f"module global {__name__}.{name}" for name in ("KEEP", "OTHER")}
    alone = answer["retained_bytes"]
    assert alone == second["retained_bytes"] < 16  # scalars of its own; x stays with the other
    assert answer["all_owners_bytes"] >= 2 * alone + 16


def test_counts_are_as_before_and_no_wrapper_is_made() -> None:
    import gc
    import sys

    x = leaf(4) * 1
    loss = x.exp().sum()
    node = loss.grad_fn
    assert node is not None

    def counts() -> tuple[int, ...]:
        return sys.getrefcount(x), sys.getrefcount(node), x._use_count()

    def wrappers() -> int:
        return sum("Backward" in type(thing).__name__ for thing in gc.get_objects())

    before, made = counts(), wrappers()
    ask(address_of(x))
    assert counts() == before
    assert wrappers() == made
    loss.backward()
