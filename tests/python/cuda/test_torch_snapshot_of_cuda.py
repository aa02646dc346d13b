"""The pickle that torch itself writes: what is read from it adds up to the allocator's own figures."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("needs_cuda")


@pytest.mark.parametrize("stacks", ["python", "all"])
def test_sums_are_the_allocators(stacks: str, tmp_path: Path) -> None:
    from leakguard.torch_snapshot import load_torch_snapshot

    torch.cuda.memory._record_memory_history(stacks=stacks)
    try:
        kept = [torch.ones(size, device="cuda") for size in (3, 1000, 700_000, 5_000_000) for _ in range(3)]
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            kept.append(torch.ones(70_000, device="cuda"))
        side = torch.cuda.Stream()
        passing = torch.ones(90_000, device="cuda")
        passing.record_stream(side)
        del passing
        torch.cuda.memory._dump_snapshot(tmp_path / "snapshot.pickle")
        stats = torch.cuda.memory_stats()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    snapshot = load_torch_snapshot(tmp_path / "snapshot.pickle")
    (memory,) = [one for one in snapshot.memory.devices if one.device == "cuda:0"]
    for name in ("allocated", "active", "requested", "reserved", "inactive split"):
        for pool_name, stat in (("all", "all"), ("large", "large_pool"), ("small", "small_pool")):
            key = name.replace(" ", "_")
            expected = stats[f"{key}_bytes.{stat}.current"]
            assert memory.current(name, pool_name) == expected, (name, pool_name)
    mine = [group for group in snapshot.memory.groups if group.place.file == __file__]
    assert sum(group.blocks for group in mine) >= 13
    assert any(group.private_pool for group in mine)
    assert len(snapshot.pools) >= 1
    assert snapshot.histories[0].events > 0
    assert len(kept) == 13
