"""Snapshots of live memory add up to what the ledger counts, and their differences to one another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from sample_tables import LATER, MIB, SMALL, SNAPSHOT  # noqa: E402
from torch import nn  # noqa: E402

import leakguard  # noqa: E402
from leakguard._native import core  # noqa: E402
from leakguard.guard import Guard  # noqa: E402
from leakguard.memory_snapshot import Snapshot  # noqa: E402


@pytest.fixture
def guard() -> Iterator[Guard]:
    with leakguard.watch(on_exit="never") as watching:
        yield watching


def here(snapshot: Snapshot, expression: str) -> list[tuple[int, int]]:
    return [(group.bytes, group.blocks) for group in snapshot.groups if group.place.expression == expression]


def test_sums_are_the_ledgers(guard: Guard) -> None:
    model = nn.Linear(64, 64)
    kept = [model(torch.ones(8, 64)) for _ in range(5)]
    snapshot = guard.snapshot()
    blocks, live, _, pending, _, born = core.counts("cpu")
    (cpu,) = [memory for memory in snapshot.devices if memory.device == "cpu"]
    (counter,) = cpu.counters
    assert counter.name == "requested"
    assert counter.current == live + pending == sum(group.bytes for group in snapshot.of("cpu"))
    assert sum(group.blocks for group in snapshot.of("cpu")) == blocks
    assert counter.total_allocated == born
    assert counter.total_freed == born - live
    assert counter.peak is not None and counter.peak >= counter.current
    assert len(kept) == 5


def test_live_blocks_by_site_and_module(guard: Guard) -> None:
    guard.add(net := nn.Sequential(nn.Linear(64, 64)))
    kept = []
    for _ in range(3):
        kept.append(torch.ones(1024))
    kept.append(net(torch.ones(8, 64)))
    snapshot = guard.snapshot()
    assert here(snapshot, "torch.ones(1024)") == [(3 * 4096, 3)]
    assert any(group.place.module == "0" for group in snapshot.of("cpu"))


def test_a_difference_tells_born_died_and_survived(guard: Guard) -> None:
    kept = [torch.ones(1024) for _ in range(4)]
    before = guard.snapshot()
    kept[:2] = []
    new = torch.zeros(2048)
    after = guard.snapshot()
    diff = before.diff(after)
    changes = {
        change.place.expression: (change.born_blocks, change.died_bytes, change.survived_blocks)
        for change in diff.groups
    }
    assert changes["torch.ones(1024)"] == (0, 2 * 4096, 2)
    assert changes["torch.zeros(2048)"] == (1, 0, 0)
    assert diff.bytes == new.nbytes - 2 * 4096


def test_a_difference_with_itself_is_empty(guard: Guard) -> None:
    kept = torch.ones(1024)
    snapshot = guard.snapshot()
    diff = snapshot.diff(snapshot)
    assert diff.groups == ()
    assert diff.survived_bytes == sum(group.bytes for group in snapshot.groups) >= kept.nbytes


def test_differences_add_up(guard: Guard) -> None:
    first = guard.snapshot()
    kept = [torch.ones(100) for _ in range(3)]
    second = guard.snapshot()
    kept.pop()
    kept.append(torch.ones(700))
    third = guard.snapshot()
    assert first.diff(second).bytes + second.diff(third).bytes == first.diff(third).bytes
    assert first.diff(third).bytes == -third.diff(first).bytes == 2 * 400 + 2800


def test_a_block_at_a_used_address_is_another_block() -> None:
    diff = SNAPSHOT.diff(LATER)
    forward = diff.groups[0]
    assert (forward.born_blocks, forward.died_blocks, forward.survived_blocks) == (2, 0, 38)
    assert diff.bytes == 3 * MIB - 2 * MIB - 512 * (len(SMALL) - 1)


def test_after_the_end_there_is_none() -> None:
    with leakguard.watch(on_exit="never") as guard:
        leakguard.step()
    assert guard.snapshot() == Snapshot(step=1)


def test_holders_and_shapes_where_they_are_asked_for(guard: Guard) -> None:
    kept = [torch.ones(1024) for _ in range(3)]
    part = torch.ones(4, 512)[1]
    assert all(group.holder is None and group.shape is None for group in guard.snapshot().groups)
    snapshot = guard.snapshot(holders=True)
    (ones,) = [group for group in snapshot.groups if group.place.expression == "torch.ones(1024)"]
    assert ones.holder is not None
    assert ones.holder.startswith("local 'kept' in test_holders_and_shapes_where_they_are_asked_for() at ")
    assert ones.holder.endswith("(list, 3 items)")
    assert (ones.shape, ones.blocks) == ("[1024] float32", 3)
    (whole,) = [group for group in snapshot.groups if group.place.expression == "torch.ones(4, 512)"]
    assert whole.holder is not None and whole.holder.startswith("local 'part' in ")
    assert whole.shape is None
    (cpu,) = [device for device in snapshot.devices if device.device == "cpu"]
    assert sum(group.bytes for group in snapshot.of("cpu")) == cpu.current("requested")
    assert len(kept) + len(part) == 3 + 512
    text = str(snapshot)
    assert "cpu, alive by holder" in text and "cpu, alive by shape" in text
