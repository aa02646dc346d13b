"""A snapshot of CUDA memory adds up to the allocator's own figures, also while a stream still uses what was freed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("needs_cuda")


def test_sums_are_the_allocators():
    import leakguard

    with leakguard.watch(on_exit="never") as guard:
        kept = [torch.ones(size, device="cuda") for size in (3, 1000, 700_000, 5_000_000)]
        side = torch.cuda.Stream()
        passing = torch.ones(90_000, device="cuda")
        passing.record_stream(side)
        del passing
        snapshot = guard.snapshot()
        stats = torch.cuda.memory_stats(0)
        (memory,) = [memory for memory in snapshot.devices if memory.device == "cuda:0"]
        groups = snapshot.of("cuda:0")
        live = sum(group.bytes for group in groups if not group.pending)
        assert live == memory.current("allocated") == stats["allocated_bytes.all.current"]
        assert sum(group.bytes for group in groups) == memory.current("active")
        assert sum(group.requested_bytes for group in groups) == memory.current("requested")
        assert memory.current("reserved") == torch.cuda.memory_reserved(0)
        for name in ("allocated", "active", "requested", "reserved", "inactive split"):
            whole = memory.current(name)
            assert whole == sum(memory.current(name, pool) or 0 for pool in ("large", "small"))
        for counter in memory.counters:
            if (counter.name, counter.pool) == ("allocated", "all"):
                assert counter.total_allocated == stats["allocated_bytes.all.allocated"]
                assert counter.total_freed == stats["allocated_bytes.all.freed"]
            assert counter.peak >= counter.current
        assert "outside the allocator" in str(snapshot)
        assert len(kept) == 4


def test_each_step_knows_what_was_reserved_at_its_end():
    import leakguard

    with leakguard.watch(on_exit="never") as guard:
        kept, reserved = [], []
        for _ in range(6):
            kept.append(torch.ones(9_000_000, device="cuda"))
            leakguard.step()
            reserved.append(torch.cuda.memory_reserved(0))
        assert [row.reserved for row in guard.table().of("cuda:0")] == reserved
        assert len(set(reserved)) > 3
        assert all(row.reserved is None for row in guard.table().of("cpu"))
        assert guard.table().thinned(3).of("cuda:0")[-1].reserved == reserved[-1]


def test_every_row_of_torchs_own_summary_is_in_it():
    import leakguard
    from leakguard.units import format_bytes

    names = {
        "allocated": ("Allocated memory", "allocated_bytes"),
        "active": ("Active memory", "active_bytes"),
        "requested": ("Requested memory", "requested_bytes"),
        "reserved": ("GPU reserved memory", "reserved_bytes"),
        "inactive split": ("Non-releasable memory", "inactive_split_bytes"),
    }
    with leakguard.watch(on_exit="never") as guard:
        kept = [torch.ones(size, device="cuda") for size in (3, 1000, 700_000, 5_000_000)]
        del kept[2]
        summary, stats, snapshot = torch.cuda.memory_summary(0), torch.cuda.memory_stats(0), guard.snapshot()
    (memory,) = [memory for memory in snapshot.devices if memory.device == "cuda:0"]
    text = " ".join(str(snapshot).split())
    for name, (title, key) in names.items():
        assert title in summary
        for pool, their_pool in {"all": "all", "large": "large_pool", "small": "small_pool"}.items():
            (counter,) = [one for one in memory.counters if (one.name, one.pool) == (name, pool)]
            ours = [counter.current, counter.peak, counter.total_allocated, counter.total_freed]
            theirs = [
                stats[f"{key}.{their_pool}.{figure}"] for figure in ("current", "peak", "allocated", "freed")
            ]
            assert ours == theirs, (name, pool)
            label = name if pool == "all" else f"{pool} pool"
            assert " ".join([label, *map(format_bytes, ours)]) in text, (name, pool)
