"""guard.why(tensor) and guard.owners(): who keeps it, asked now."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

import leakguard
from leakguard.ownership import Owners
from leakguard.report import Example

HISTORY: list[Any] = []


@pytest.fixture(autouse=True)
def empty_history() -> Any:
    yield
    HISTORY.clear()


@pytest.fixture
def guard() -> Any:
    with leakguard.watch(on_exit="never") as guard:
        yield guard


def test_the_holder_beside_the_variable_it_is_asked_with(guard: leakguard.Guard) -> None:
    HISTORY.append(torch.rand(8, 4))
    leakguard.step()
    tensor = HISTORY[0]
    why = guard.why(tensor)
    assert why.root == "module global test_why.HISTORY"
    assert [(link.edge, link.name) for link in why.retained_by] == [
        ("module global", "HISTORY"),
        ("item", None),
    ]
    assert why.held
    assert (why.device, why.bytes, why.example) == ("cpu", 128, Example(shape=(8, 4), dtype="float32"))
    assert why.allocated_at is not None
    assert why.allocated_at.expression == "torch.rand(8, 4)"
    assert why.step == 1
    shown = str(why).splitlines()
    assert shown[0] == "tensor     [8, 4] float32 on cpu, 128 B"
    assert shown[1].startswith("born at    ")
    assert "held by    ┬ module global test_why.HISTORY   list, 1 item" in shown
    assert shown[-1] == "since      step 1"


def test_a_variable_is_the_holder_when_nothing_else_is(guard: leakguard.Guard) -> None:
    alone = torch.rand(8, 4)
    why = guard.why(alone)
    assert why.root.startswith("local 'alone' in test_a_variable_is_the_holder_when_nothing_else_is()")
    assert why.retained_bytes == 128


def test_the_graph_that_keeps_it(guard: leakguard.Guard) -> None:
    weight = torch.rand(4, requires_grad=True)
    x = torch.rand(8, 4)
    HISTORY.append((x * weight).sum())
    why = guard.why(x)
    assert [link.edge for link in why.retained_by] == [
        "module global",
        "item",
        "grad_fn",
        "next function",
        "saved tensor",
    ]
    assert why.also_held_by == ()


def test_several_holders_are_all_named(guard: leakguard.Guard) -> None:
    box = {"kept": torch.rand(3)}
    HISTORY.append(box["kept"])
    gc.collect()
    why = guard.why(HISTORY[0])
    assert why.root == "module global test_why.HISTORY"


def test_a_tensor_from_before_the_watch() -> None:
    HISTORY.append(torch.rand(8))
    with leakguard.watch(on_exit="never") as guard:
        why = guard.why(HISTORY[0])
    assert (why.allocated_at, why.step) == (None, None)
    assert guard.why(HISTORY[0]).root == why.root  # after stop() too
    assert "born at" not in str(why)


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ([1], TypeError, r"why\(\) takes a tensor, and got list"),
        (torch.empty(3, device="meta"), ValueError, "has no memory: it is empty, or on the meta device"),
        (torch.empty(0), ValueError, "has no memory: it is empty"),
        (torch.eye(3).to_sparse(), ValueError, "no memory of its own"),
    ],
)
def test_what_has_no_memory_is_an_error(
    guard: leakguard.Guard, wrong: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        guard.why(wrong)


def test_owners(guard: leakguard.Guard) -> None:
    HISTORY.extend(torch.rand(256) for _ in range(3))
    alone = torch.rand(64)
    owners = guard.owners()
    rows = {row.holder: (row.bytes, row.blocks, row.device) for row in owners.rows}
    assert rows["module global test_why.HISTORY (list, 3 items)"] == (3 * 1024, 3, "cpu")
    (mine,) = (value for holder, value in rows.items() if holder.startswith("local 'alone' in test_owners()"))
    assert mine == (256, 1, "cpu")
    assert owners.left_out == 0
    assert (
        " 3.00 KiB    3 blocks cpu     module global test_why.HISTORY (list, 3 items)"
        in str(owners).splitlines()
    )
    del alone


def test_owners_of_nothing() -> None:
    assert str(Owners(())) == "no live block was born under watch"


def test_nothing_is_kept_by_the_answer(guard: leakguard.Guard) -> None:
    import weakref

    tensor = torch.rand(4)
    reference = weakref.ref(tensor)
    why, owners = guard.why(tensor), guard.owners()
    del tensor
    assert reference() is None
    assert str(why)
    assert str(owners)
