"""The ledger against the allocator's own snapshot, block for block, after every step of every scenario."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("needs_cuda")

if torch.version.cuda is not None:
    from cuda_scenarios import SCENARIOS

    from leakguard._native import core
else:
    SCENARIOS = {}


def held_by_allocator() -> dict[tuple[str, int], tuple[int, bool]]:
    """(device, address) -> (requested bytes, a stream still uses it), as torch tells it."""
    return {
        (f"cuda:{segment['device']}", block["address"]): (
            block["requested_size"],
            block["state"] == "active_pending_free",
        )
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }


def held_by_ledger() -> dict[tuple[str, int], tuple[int, bool]]:
    return {
        (device, address): (requested, pending)
        for address, requested, device, _, _, _, _, pending, *_ in core.blocks()
        if device.startswith("cuda")
    }


def check_exact(cuda) -> None:
    theirs, ours = held_by_allocator(), held_by_ledger()
    assert ours == theirs, (ours.items() - theirs.items(), theirs.items() - ours.items())
    rounded = dict.fromkeys(range(torch.cuda.device_count()), 0)
    for device, _, size, _, allocated, _, _ in cuda.allocator_blocks():
        rounded[int(device.removeprefix("cuda:"))] += size if allocated else 0
    for device in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats(device)
        live, live_bytes, pending, pending_bytes, *_ = core.counts(f"cuda:{device}")
        assert live == stats.get("allocation.all.current", 0)
        assert live + pending == stats.get("active.all.current", 0)
        assert live_bytes + pending_bytes == stats.get("requested_bytes.all.current", 0)
        assert rounded[device] == torch.cuda.memory_allocated(device)
        assert cuda.reconcile(device) == (0, 0, 0, 0, 0)


def drop_everything() -> None:
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


@pytest.fixture
def nothing_left():
    drop_everything()
    before = held_by_allocator()
    yield
    drop_everything()
    assert held_by_allocator() == before
    assert held_by_ledger() == before
    dropped, _, replaced, _ = core.lost()
    assert (dropped, replaced) == (0, 0)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_block(cuda, nothing_left, name):
    assert cuda.status()[0] == "exact"
    checks = 0
    for _ in SCENARIOS[name]():
        check_exact(cuda)
        checks += 1
    assert checks >= 20


def test_a_watch_that_begins_late_takes_over_what_is_there(cuda):
    cuda.detach()
    before = [torch.empty(1000 + i, device="cuda") for i in range(10)]
    assert len(held_by_ledger()) < len(held_by_allocator())
    cuda.attach()
    check_exact(cuda)
    unknown = core.lost()[1]
    assert unknown >= 10
    del before[::2]
    after = torch.empty(77, device="cuda")
    check_exact(cuda)
    assert core.lost()[1] == unknown
    del before, after
    check_exact(cuda)


def test_a_pending_block_is_taken_over_as_pending(cuda):
    from cuda_world import stalled

    cuda.detach()
    side = torch.cuda.Stream()
    x = torch.empty(12345, device="cuda")
    with stalled(side):
        with torch.cuda.stream(side):
            y = x + 1
        x.record_stream(side)
        del x
        cuda.attach()
        assert core.counts("cuda:0")[2] == 1
        check_exact(cuda)
    torch.cuda.synchronize()
    torch.empty(1, device="cuda")
    check_exact(cuda)
    del y
