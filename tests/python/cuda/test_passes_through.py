"""torch behaves the same with the wrapper in its slots."""

from __future__ import annotations

import ctypes
import json

import pytest
from cuda_world import fakecuda

torch = pytest.importorskip("torch")


def test_blocks_keep_the_native_deleter(cuda):
    storage = torch.empty(10, device="cuda").untyped_storage()
    assert torch._C._has_Standard_Deleter(storage._cdata)


def test_both_slots_hold_the_wrapper(cuda):
    assert cuda.status()[1]
    x = torch.empty(1000, device="cuda")
    assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated() >= x.nbytes
    assert torch.accelerator.memory_reserved() == torch.cuda.memory_reserved()
    assert torch.cuda.get_allocator_backend() == "native"


def test_change_of_allocator_is_refused_as_before(cuda):
    torch.empty(1, device="cuda")
    library = ctypes.CDLL(None)._name or "libc.so.6"
    other = torch.cuda.memory.CUDAPluggableAllocator(library, "malloc", "free")
    with pytest.raises(RuntimeError, match="Can't swap an already initialized allocator"):
        torch.cuda.memory.change_current_allocator(other)


def test_history_shows_the_users_frames(cuda):
    torch.cuda.memory._record_memory_history(max_entries=100)
    try:
        x = torch.empty(5000, device="cuda")
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        frames = [entry["frames"] for entry in trace if entry["addr"] == x.data_ptr()][-1]
        assert any(frame["name"] == "test_history_shows_the_users_frames" for frame in frames)
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


LOOP = """
import json, random, sys
import torch
from torch import nn
if "watched" in sys.argv:
    from leakguard._native import core, cuda
    core.plug_sockets()
    core.set_watching(True)
    cuda.attach()
    cuda.attach_pinned()
torch.manual_seed(0)
random.seed(0)
layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
model = nn.Sequential(layer, nn.Conv1d(8, 4, 3), nn.Flatten(), nn.Linear(120, 4)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
side, kept, losses = torch.cuda.Stream(), [], []
for step in range(30):
    batch = torch.randn(random.choice([2, 4, 8]), 8, 32).pin_memory().cuda(non_blocking=True)
    loss = model(batch).square().mean()
    loss.backward()
    batch.record_stream(side)
    optimizer.step()
    optimizer.zero_grad()
    kept.append(loss.detach())
    losses.append(loss.item())
stats = {key: value for key, value in torch.cuda.memory_stats().items() if "time" not in key}
host = {key: value for key, value in torch.cuda.host_memory_stats().items() if "time" not in key}
import fakecuda
calls = "malloc free launch copy event_record event_query stream_sync device_sync host_alloc".split()
counts = {name: fakecuda.counter(name) for name in calls} if fakecuda.active else {}
print(json.dumps([losses, stats, host, counts]))
"""


def test_a_loop_runs_identically(in_fresh_process):
    """Same losses, same counters, same calls to the CUDA runtime."""
    plain = json.loads(in_fresh_process(LOOP))
    watched = json.loads(in_fresh_process("import sys; sys.argv.append('watched')\n" + LOOP))
    for before, after in zip(plain, watched, strict=True):
        assert after == before
    if fakecuda.active:
        assert plain[3]["launch"] > 1000
