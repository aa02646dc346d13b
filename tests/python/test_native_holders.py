"""Tensors held by C++ code: by an extension's vector, and by a custom C++ autograd Function."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from holder_world import address_of, ask, chain, links

if importlib.util.find_spec("_keeping") is None:
    pytest.skip("the test-only module _keeping is not built", allow_module_level=True)

import _keeping

KEEP: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    KEEP.clear()
    _keeping.clear()


def test_vector_of_an_extension() -> None:
    tensor = torch.randn(10)
    address = address_of(tensor)
    _keeping.keep(tensor)
    assert chain(address) == [("local", "tensor", "Tensor")]
    del tensor
    answer = ask(address)
    assert answer["status"] == "native"
    assert answer["root"] == "native reference"
    assert links(answer) == [("native", None, "Tensor")]
    assert answer["retained_bytes"] == 40


def test_vector_that_holds_the_only_tensor_of_its_memory() -> None:
    tensor = torch.randn(10)
    _keeping.keep(tensor.detach())
    address = address_of(tensor)
    del tensor
    answer = ask(address)
    assert answer["status"] == "native"
    assert answer["example"] == {"shape": [10], "dtype": "float32", "requires_grad": False}


def test_saved_tensor_of_a_c_plus_plus_function() -> None:
    x = torch.randn(4, requires_grad=True) * 1
    address = address_of(x)
    KEEP["loss"] = _keeping.square(x).sum()
    del x
    assert chain(address) == [
        ("module global", "KEEP", "dict"),
        ("item", "loss", "Tensor"),
        ("grad_fn", None, "SumBackward0"),
        ("next function", None, "Square"),
        ("saved tensor", "saved_variables", "Tensor"),
    ]
    KEEP["loss"].backward()
    assert ask(address)["status"] == "not-found"
