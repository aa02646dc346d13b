"""When and where the wrapper and the tracker get in, and what is said when they cannot."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cuda_world import allocator_slot

torch = pytest.importorskip("torch")

TRAIN = """
import torch
from leakguard._native import core, cuda
core.set_watching(True)

def train():
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model
"""


def test_before_cuda_starts(in_fresh_process):
    in_fresh_process(
        TRAIN
        + """
assert cuda.status()[0] == "off"
assert cuda.attach() == ("waiting", True, "native", "")
assert not torch.cuda.is_initialized()
model = train()
assert cuda.status() == ("exact", True, "native", "")
assert cuda.reconcile(0) == (0, 0, 0, 0, 0)
assert core.lost() == (0, 0, 0, 0)
"""
    )


def test_after_cuda_has_started(in_fresh_process):
    in_fresh_process(
        TRAIN
        + """
before = train()
assert cuda.attach() == ("exact", True, "native", "")
assert cuda.reconcile(0) == (0, 0, 0, 0, 0)
assert core.lost()[1] > 0
after = train()
assert cuda.reconcile(0) == (0, 0, 0, 0, 0)
"""
    )


def test_attached_detached_and_attached_again(cuda):
    x = torch.empty(1000, device="cuda")
    cuda.detach()
    assert cuda.status() == ("off", False, "native", "")
    y = torch.empty(2000, device="cuda")
    del x
    for _ in range(3):
        assert cuda.attach() == ("exact", True, "native", "")
    assert cuda.reconcile(0) == (0, 0, 0, 0, 0)
    del y
    assert cuda.reconcile(0) == (0, 0, 0, 0, 0)


def test_displaced_by_another_tool(cuda):
    """Another tool stores its allocator over ours: the tracker goes on alone, and the status says so."""
    slot = allocator_slot()
    ours = slot.value
    cuda.detach()
    theirs = slot.value
    assert ours != theirs
    cuda.attach()
    slot.value = theirs
    tracking, wrapped, _, why = cuda.status()
    assert (tracking, wrapped) == ("exact", False)
    assert "another tool" in why
    x = torch.empty(1234, device="cuda")
    assert cuda.reconcile(0) == (0, 0, 0, 0, 0)
    cuda.detach()
    assert slot.value == theirs
    del x


def test_cuda_malloc_async_has_counters_only(in_fresh_process):
    in_fresh_process(
        TRAIN
        + """
tracking, wrapped, backend, why = cuda.attach()
assert (tracking, wrapped, backend) == ("counters", False, "cudaMallocAsync") and "totals" in why, why
model = train()
assert cuda.status()[0] == "counters"
assert cuda.counters(0)[0] == torch.cuda.memory_allocated() > 0
assert core.counts("cuda:0")[0] == 0
try:
    cuda.allocator_blocks()
    raise SystemExit("a snapshot of cudaMallocAsync?")
except RuntimeError:
    pass
cuda.detach()
train()
""",
        PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync",
        PYTORCH_ALLOC_CONF="backend:cudaMallocAsync",
    )


def test_caching_switched_off(in_fresh_process):
    in_fresh_process(
        TRAIN
        + """
cuda.attach()
model = train()
tracking, wrapped, backend, why = cuda.status()
assert tracking == "counters" and "switched off" in why, (tracking, why)
assert core.counts("cuda:0")[0] == 0
""",
        PYTORCH_NO_CUDA_MEMORY_CACHING="1",
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_pluggable_allocator_set_after_us(in_fresh_process, tmp_path: Path):
    source = tmp_path / "pluggable.c"
    source.write_text(
        """
        #include <stddef.h>
        extern int cudaMalloc(void**, size_t);
        extern int cudaFree(void*);
        void* take(ptrdiff_t size, int device, void* stream) { void* p = 0; cudaMalloc(&p, size); return p; }
        void give(void* p, ptrdiff_t size, int device, void* stream) { cudaFree(p); }
        """
    )
    library = tmp_path / "pluggable.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    in_fresh_process(
        TRAIN
        + f"""
assert cuda.attach()[0] == "waiting"
other = torch.cuda.memory.CUDAPluggableAllocator({str(library)!r}, "take", "give")
torch.cuda.memory.change_current_allocator(other)
model = train()
tracking, wrapped, backend, why = cuda.status()
assert (tracking, wrapped, backend) == ("counters", False, "pluggable"), (tracking, backend)
assert "neither by line nor in total" in why
assert core.counts("cuda:0")[0] == 0
cuda.detach()
"""
    )
