"""Tensors held by containers, modules, optimizers, other tensors and other libraries."""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from holder_world import address_of, ask, chain, links

KEEP: dict[str, Any] = {}
FIRST = ("module global", "KEEP", "dict")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    KEEP.clear()


def test_list_with_its_length_bytes_and_example() -> None:
    KEEP["history"] = [torch.zeros(4, 2, dtype=torch.float64) for _ in range(3)]
    answer = ask(address_of(KEEP["history"][1]))
    assert answer["root"] == f"module global {__name__}.KEEP"
    assert links(answer) == [FIRST, ("item", "history", "list"), ("item", None, "Tensor")]
    assert answer["retained_by"][2]["detail"] == "[4, 2] float64"
    assert answer["retained_by"][answer["holder"]]["name"] == "history"
    assert answer["container"] == {"type": "list", "length": 3, "limit": None}
    assert answer["retained_bytes"] == 3 * 4 * 2 * 8
    assert answer["example"] == {"shape": [4, 2], "dtype": "float64", "requires_grad": False}


def test_bounded_deque() -> None:
    KEEP["recent"] = collections.deque([torch.zeros(4)], maxlen=8)
    answer = ask(address_of(KEEP["recent"][0]))
    assert answer["container"] == {"type": "deque", "length": 1, "limit": 8}


def test_parameter_and_buffer_are_attributes_of_their_module() -> None:
    KEEP["net"] = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    weight, mean = address_of(KEEP["net"][0].weight), address_of(KEEP["net"][1].running_mean)
    assert chain(weight) == [
        FIRST,
        ("item", "net", "Sequential"),
        ("item", None, "Linear"),
        ("attribute", "weight", "Parameter"),
    ]
    assert chain(mean)[-1] == ("attribute", "running_mean", "Tensor")


def test_submodules_by_name() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.Linear(3, 2)

    KEEP["net"] = Net()
    address = address_of(KEEP["net"].encoder.bias)
    assert chain(address) == [
        FIRST,
        ("item", "net", "Net"),
        ("attribute", "encoder", "Linear"),
        ("attribute", "bias", "Parameter"),
    ]


def test_parameter_list() -> None:
    KEEP["p"] = torch.nn.ParameterList([torch.randn(4)])
    address = address_of(KEEP["p"][0])
    assert chain(address) == [FIRST, ("item", "p", "ParameterList"), ("item", None, "Parameter")]


def test_gradient_of_a_parameter() -> None:
    KEEP["w"] = torch.nn.Parameter(torch.randn(4))
    (KEEP["w"] * 2).sum().backward()
    address = address_of(KEEP["w"].grad)
    assert chain(address) == [FIRST, ("item", "w", "Parameter"), ("attribute", "grad", "Tensor")]


def test_optimizer_state() -> None:
    weight = torch.nn.Parameter(torch.randn(4))
    optimizer = torch.optim.Adam([weight])
    weight.sum().backward()
    optimizer.step()
    KEEP["optimizer"] = optimizer
    address = address_of(optimizer.state[weight]["exp_avg"])
    del optimizer, weight
    assert chain(address) == [
        FIRST,
        ("item", "optimizer", "Adam"),
        ("attribute", "state", "defaultdict"),
        ("item", None, "dict"),
        ("item", "exp_avg", "Tensor"),
    ]


def test_view_pins_its_whole_base() -> None:
    base = torch.randn(1000)
    KEEP["v"] = base[:2]
    address = address_of(base)
    del base
    answer = ask(address)
    assert links(answer) == [FIRST, ("item", "v", "Tensor")]
    assert answer["retained_by"][1]["detail"] == "[2] float32"
    assert answer["retained_bytes"] == 4000


def test_base_of_a_differentiable_view() -> None:
    base: Any = torch.randn(10, requires_grad=True) * 1
    base.mark = [torch.zeros(7)]
    address = address_of(base.mark[0])
    KEEP["v"] = base[:2]
    del base
    found = chain(address)
    assert found[:2] == [FIRST, ("item", "v", "Tensor")]
    assert ("attribute", "_base", "Tensor") in found
    assert found[-2:] == [("attribute", "mark", "list"), ("item", None, "Tensor")]


def test_attribute_of_a_tensor_and_slot_of_a_subclass() -> None:
    class Sub(torch.Tensor):
        __slots__ = ("more",)

    plain: Any = torch.randn(4)
    plain.extra = torch.randn(5)
    sub: Any = torch.randn(3).as_subclass(Sub)
    sub.more = torch.randn(6)
    KEEP["plain"], KEEP["sub"] = plain, sub
    extra, more = address_of(plain.extra), address_of(sub.more)
    del plain, sub
    assert chain(extra) == [FIRST, ("item", "plain", "Tensor"), ("attribute", "extra", "Tensor")]
    assert chain(more) == [FIRST, ("item", "sub", "Sub"), ("attribute", "more", "Tensor")]


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_parts_of_a_sparse_tensor(layout: str) -> None:
    dense = torch.eye(4)
    KEEP["s"] = dense.to_sparse() if layout == "coo" else dense.to_sparse_csr()
    values = KEEP["s"]._values() if layout == "coo" else KEEP["s"].values()
    address = address_of(values)
    del values
    assert chain(address) == [FIRST, ("item", "s", "Tensor"), ("attribute", "values", "Tensor")]


def test_storage_object() -> None:
    tensor = torch.randn(4)
    address = address_of(tensor)
    KEEP["s"] = tensor.untyped_storage()
    del tensor
    assert chain(address) == [FIRST, ("item", "s", "UntypedStorage")]


def test_array_that_shares_the_memory() -> None:
    tensor = torch.randn(10)
    address = address_of(tensor)
    KEEP["n"] = tensor.numpy()
    del tensor
    assert chain(address)[:2] == [FIRST, ("item", "n", "ndarray")]
    assert chain(address)[-1][2] == "Tensor"


def test_array_of_objects() -> None:
    tensor = torch.randn(10)
    address = address_of(tensor)
    KEEP["n"] = np.empty(2, dtype=object)
    KEEP["n"][0] = tensor
    del tensor
    assert chain(address) == [FIRST, ("item", "n", "ndarray"), ("item", None, "Tensor")]


def test_dlpack_capsule() -> None:
    tensor = torch.randn(10)
    address = address_of(tensor)
    KEEP["c"] = torch.utils.dlpack.to_dlpack(tensor)
    del tensor
    assert chain(address)[:2] == [FIRST, ("item", "c", "DLPack capsule")]
    assert chain(address)[-1][2] == "Tensor"


def test_forward_hook_of_a_module() -> None:
    def watched() -> tuple[torch.nn.Module, int]:
        module, store = torch.nn.Linear(4, 4), []
        module.register_forward_hook(lambda _m, _i, output: store.append(output.detach() * 1))
        module(torch.randn(2, 4))
        return module, address_of(store[0])

    KEEP["m"], address = watched()
    answer = ask(address)
    assert links(answer) == [
        FIRST,
        ("item", "m", "Linear"),
        ("hook", "forward_hook", "function"),
        ("closure", "store", "list"),
        ("item", None, "Tensor"),
    ]
    assert answer["retained_by"][answer["holder"]]["name"] == "store"


def test_held_only_by_c_plus_plus() -> None:
    KEEP["scripted"] = torch._C.ScriptList([torch.randn(10)])
    address = address_of(KEEP["scripted"][0])
    answer = ask(address)
    assert answer["status"] == "native"
    assert answer["root"] == "native reference"
    assert links(answer) == [("native", None, "Tensor")]
    assert answer["retained_bytes"] == 40


def test_memory_that_no_tensor_uses() -> None:
    answer = ask(0x1000)
    assert answer["status"] == "not-found"
    assert answer["example"] is None


def test_local_of_another_thread() -> None:
    ready, go, addresses = threading.Event(), threading.Event(), []

    def work() -> None:
        theirs = [torch.randn(3)]
        addresses.append(address_of(theirs[0]))
        ready.set()
        go.wait()

    thread = threading.Thread(target=work, name="loader")
    thread.start()
    ready.wait()
    answer = ask(addresses[0])
    go.set()
    thread.join()
    assert links(answer) == [("local", "theirs", "list"), ("item", None, "Tensor")]
    assert answer["root"].endswith(", thread 'loader'")


def test_iterator_of_a_data_loader() -> None:
    class Cached(torch.utils.data.Dataset[torch.Tensor]):
        def __init__(self) -> None:
            self.cache = [torch.randn(3)]

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> torch.Tensor:
            return self.cache[0]

    addresses: list[int] = []

    def made() -> Cached:
        dataset = Cached()
        addresses.append(address_of(dataset.cache[0]))
        return dataset

    for _ in torch.utils.data.DataLoader(made()):
        found = chain(addresses[0])
        break
    assert found[0] == ("temporary", None, "_SingleProcessDataLoaderIter")
    assert found[-2:] == [("attribute", "cache", "list"), ("item", None, "Tensor")]
