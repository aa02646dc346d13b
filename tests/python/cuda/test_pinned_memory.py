"""Pinned host memory: a device row of its own."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def pinned(cuda):
    assert cuda.attach_pinned() == ""
    yield cuda
    cuda.detach_pinned()


def counts() -> tuple[int, int]:
    from leakguard._native import core

    blocks, size, pending, *_ = core.counts("pinned")
    assert pending == 0
    return blocks, size


def active_requests() -> int:
    return torch.cuda.host_memory_stats().get("active_requests.current", 0)


def test_tensors(pinned):
    blocks, size = counts()
    x = torch.empty(1000, pin_memory=True)
    y = torch.ones(500).pin_memory()
    empty = torch.empty(0, pin_memory=True)
    assert counts() == (blocks + 2, size + 6000)
    assert x.is_pinned()
    assert y.is_pinned()
    del x, empty
    assert counts() == (blocks + 1, size + 2000)
    del y
    assert counts() == (blocks, size)


def test_the_line_that_pinned_it(pinned):
    from leakguard._native import core

    x = torch.empty(1234, dtype=torch.uint8, pin_memory=True)
    (group,) = (block[4] for block in core.blocks() if block[1:3] == (1234, "pinned"))
    assert core.line(core.group(group)[2])[:2] == (__file__, "test_the_line_that_pinned_it")
    del x


def test_copies_that_do_not_block(pinned):
    before = counts()
    for step in range(50):
        x = torch.empty(1000 + step, pin_memory=True)
        y = x.to("cuda", non_blocking=True)
        x.copy_(y, non_blocking=True)
    del x, y
    torch.cuda.synchronize()
    assert counts() == before


def test_data_loader(pinned):
    before = counts()
    data = torch.utils.data.TensorDataset(torch.arange(64.0).reshape(16, 4))
    for workers in (0, 2):
        seen = 0
        for (batch,) in torch.utils.data.DataLoader(data, 4, pin_memory=True, num_workers=workers):
            assert batch.is_pinned()
            assert counts()[0] > before[0]
            batch.cuda(non_blocking=True)
            seen += 1
        assert seen == 4
        del batch
        assert counts() == before


def test_blocks_outlive_detaching(pinned):
    before = counts()
    kept = torch.empty(1000, pin_memory=True)
    pinned.detach_pinned()
    assert not pinned.pinned_attached()
    unseen = torch.empty(1000, pin_memory=True)
    assert counts()[0] == before[0] + 1
    del kept, unseen
    assert counts() == before
    assert pinned.attach_pinned() == ""
    assert pinned.pinned_attached()


def test_as_many_as_the_allocator_says(pinned):
    before = active_requests()
    kept = [torch.empty(100 + i, pin_memory=True) for i in range(20)]
    assert active_requests() - before == 20
    del kept
    if torch.__version__ >= (2, 13):  # before, torch counted cached blocks as active
        assert active_requests() == before
