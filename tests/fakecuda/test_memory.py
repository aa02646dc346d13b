"""Device and pinned memory: the real caching allocator over the pretended device."""

from __future__ import annotations

from pathlib import Path

import fakecuda
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("device")
MIB = 1 << 20


def test_device_is_found():
    assert torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == (8, 0)
    assert torch.cuda.get_device_properties(0).total_memory == 16 << 30
    assert torch.cuda.mem_get_info()[1] == 16 << 30


def test_real_libraries_are_not_loaded():
    torch.ones(2, 2).cuda() @ torch.ones(2, 2).cuda()
    maps = Path("/proc/self/maps").read_text()
    assert not [name for name in ("cudart", "cublas", "cublasLt") if f"/lib{name}.so" in maps]


def test_allocation_and_statistics():
    before = torch.cuda.memory_allocated()
    x = torch.empty(1024, 1024, device="cuda")
    assert torch.cuda.memory_allocated() - before == x.nbytes
    assert torch.cuda.memory_reserved() == fakecuda.used_bytes(0)
    blocks = [b for s in torch.cuda.memory_snapshot() for b in s["blocks"]]
    assert any(b["requested_size"] == x.nbytes for b in blocks)
    del x
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == fakecuda.used_bytes(0)


def test_copies_are_real():
    host = torch.arange(1000.0)
    device = host.cuda()
    assert torch.equal(device.cpu(), host)
    assert torch.equal(device.clone().cpu(), host)
    assert torch.equal(device[10:20].to("cpu"), host[10:20])
    assert torch.tensor(7.0).cuda().item() == 7.0
    pinned = host.pin_memory()
    assert pinned.is_pinned()
    assert fakecuda.pinned_bytes() > 0
    assert torch.equal(pinned.cuda(non_blocking=True).cpu(), host)


def test_small_read_backs_are_zero_after_kernels():
    for _ in range(3):  # fill the cache with blocks full of ones
        torch.ones(64, 64).cuda()
    x = torch.rand(64, 64, device="cuda")
    assert x.sum().item() == 0.0
    assert x.nonzero().shape == (0, 2)
    assert int(x.argmax()) == 0
    assert torch.ones(2).cuda().tolist() == [1.0, 1.0]


def test_memory_costs_nothing_until_touched(in_fresh_process):
    in_fresh_process(
        """
        import resource
        x = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(39)]
        assert torch.cuda.memory_allocated() == 39 << 30
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 << 20  # KiB
        """,
        FAKECUDA_MEMORY_MIB="40960",
    )


def test_out_of_memory_text():
    hoard = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(14)]
    with pytest.raises(torch.OutOfMemoryError) as caught:
        hoard.extend(torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(3))
    text = str(caught.value)
    assert "Tried to allocate 1024.00 MiB" in text or "Tried to allocate 1.00 GiB" in text
    assert "total capacity of 16.00 GiB" in text
    assert "Including non-PyTorch memory, this process has 1" in text
    hoard.clear()
    torch.empty(15 << 30, dtype=torch.uint8, device="cuda")


def test_memory_taken_by_others():
    fakecuda.set_foreign_bytes(0, 15 << 30)
    assert torch.cuda.mem_get_info()[0] <= 1 << 30
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2 << 30, dtype=torch.uint8, device="cuda")


def test_injected_failures():
    torch.cuda.reset_accumulated_memory_stats()
    fakecuda.fail_allocations(1, 1)
    keep = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(2)]
    assert torch.cuda.memory_stats()["num_alloc_retries"] == 1  # absorbed by a retry
    fakecuda.fail_allocations(0, 100)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    fakecuda.fail_allocations(0, 0)
    keep.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"))


def test_private_memory_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(MIB, device="cuda")
    assert any(s["segment_pool_id"] == pool.id for s in torch.cuda.memory_snapshot())
    del x, pool


def test_memory_history():
    torch.cuda.memory._record_memory_history(max_entries=1000)
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    del x
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    actions = [entry["action"] for entry in trace]
    assert "free_requested" in actions
    frames = trace[actions.index("alloc")]["frames"]
    assert any(f["name"] == "test_memory_history" for f in frames)


@pytest.mark.parametrize("backend", ["expandable_segments:True", "backend:cudaMallocAsync"])
def test_other_allocators(in_fresh_process, backend):
    in_fresh_process(
        """
        import gc
        model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.Linear(2048, 512)).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(256, 512, device="cuda")).sum().backward()
            optimizer.step()
        keep = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(20)]
        assert torch.cuda.memory_allocated() > 2 << 30
        assert fakecuda.used_bytes(0) >= torch.cuda.memory_reserved() > 2 << 30
        host = torch.arange(1e6)
        assert torch.equal(host.cuda().cpu(), host)
        del keep[::2]
        try:
            torch.empty(20 << 30, dtype=torch.uint8, device="cuda")
            raise SystemExit("no OOM")
        except torch.OutOfMemoryError as error:
            assert "out of memory" in str(error)
        del keep, model, optimizer
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        assert torch.cuda.memory_allocated() == 0, torch.cuda.memory_allocated()
        assert fakecuda.used_bytes(0) == torch.cuda.memory_reserved() == 0
        assert fakecuda.counter("vmm_map") == fakecuda.counter("vmm_unmap")
        if torch.cuda.get_allocator_backend() == "native":
            assert fakecuda.counter("vmm_map") > 0
            x = torch.zeros(1000, device="cuda")
            assert any(s["is_expandable"] for s in torch.cuda.memory_snapshot())
        """,
        PYTORCH_CUDA_ALLOC_CONF=backend,
        PYTORCH_ALLOC_CONF=backend,
    )
