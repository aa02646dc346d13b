"""What a program may do to CUDA memory. Each scenario yields wherever the ledger must be exact."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import torch
from cuda_world import stalled
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS = 200
EXPANDABLE = "expandable_segments:True" in os.environ.get("PYTORCH_ALLOC_CONF", "")
MIB = 1 << 20

Scenario = Callable[[], Iterator[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


def perceptron(width: int = 64) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, 8)).cuda()


@scenario
def plain_training() -> Iterator[None]:
    model = perceptron()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for step in range(STEPS):
        loss = model(torch.randn(4 + step % 7, 64, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())  # leaks a block a step
        yield
    del losses[::2]
    yield


@scenario
def mixed_precision() -> Iterator[None]:
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True).cuda()
    optimizer = torch.optim.AdamW(layer.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(STEPS):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = layer(torch.randn(2, 8, 32, device="cuda")).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        yield


@scenario
def record_stream_on_a_stalled_stream() -> Iterator[None]:
    side = torch.cuda.Stream()
    for step in range(STEPS):
        x = torch.empty(1000 + step, device="cuda")
        if step % 20 == 0:
            with stalled(side):
                with torch.cuda.stream(side):
                    y = x + 1
                x.record_stream(side)
                del x, y
                yield  # one block is pending
                torch.empty(5000, device="cuda")
                yield
        else:
            x.record_stream(side)
            del x
        yield


@scenario
def odd_sizes_and_a_flushed_cache() -> Iterator[None]:
    kept = []
    for step in range(STEPS):
        sizes = (0, 1, 511, 513, MIB + 1, 2 * MIB + 1, 11 * MIB, 20 * MIB + 5)
        kept.append(torch.empty(sizes[step % len(sizes)] + step, dtype=torch.uint8, device="cuda"))
        if len(kept) > 9:
            kept.pop(step % 9)
        if step % 10 == 0:
            torch.cuda.empty_cache()
        yield


@scenario
def graph_capture_and_replay() -> Iterator[None]:
    x = torch.zeros(100, device="cuda")
    for _ in range(5):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = (x * 2).relu()
            z = y + 1
        yield
        del y
        for _ in range(40):
            graph.replay()
            x = z + 1
            yield
        del z, graph
        yield
        x = torch.zeros(100, device="cuda")


@scenario
def memory_pool() -> Iterator[None]:
    for step in range(STEPS):
        if step % 20 == 0:
            pool, kept = torch.cuda.MemPool(), []
        with torch.cuda.use_mem_pool(pool):
            kept.append(torch.empty(1000 + step, device="cuda"))
        torch.empty(10, device="cuda")
        yield


@scenario
def checkpoint_of_a_pool_restored() -> Iterator[None]:
    """What graph trees do: a pool returns to a former state, its blocks are born again unallocated."""
    device, stream = torch.cuda.current_device(), torch.cuda.Stream()
    pool = torch.cuda.graph_pool_handle()
    with torch.cuda.stream(stream):
        torch._C._cuda_beginAllocateCurrentStreamToPool(device, pool)
        storages = [torch.empty(size, device="cuda").untyped_storage() for size in (2000, 3000)]
        torch._C._cuda_endAllocateToPool(device, pool)
    places = [(storage.data_ptr(), storage.device, storage.nbytes()) for storage in storages]
    state = torch._C._cuda_getCheckpointState(device, pool)
    yield
    for _ in range(STEPS):
        storages.clear()
        yield
        storages += [torch._C._construct_storage_from_data_pointer(*place) for place in places]
        torch._C._cuda_setCheckpointPoolState(device, state, [], [storage._cdata for storage in storages])
        yield  # both are live again
        torch.empty(100, device="cuda")
        yield
    storages.clear()
    torch._C._cuda_releasePool(device, pool)
    yield


@scenario
def compiled_graph_trees() -> Iterator[None]:
    torch._dynamo.reset()
    model = perceptron(16)
    compiled = torch.compile(model, backend="cudagraphs")
    for _ in range(STEPS // 4):
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            y = compiled(torch.randn(4, 16, device="cuda")).clone()
        yield
    for _ in range(STEPS - STEPS // 4):
        torch.compiler.cudagraph_mark_step_begin()
        model.zero_grad(set_to_none=True)
        compiled(torch.randn(4, 16, device="cuda")).sum().backward()
        yield
    del y, compiled, model
    torch._dynamo.reset()
    yield


@scenario
def training_from_four_threads() -> Iterator[None]:
    def train(rounds: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            model = perceptron(32)
            for _ in range(rounds):
                x = torch.randn(8, 32, device="cuda")
                model(x).sum().backward()
                kept.append(x)  # freed by the main thread

    kept: list[torch.Tensor] = []
    for _ in range(STEPS // 20):
        threads = [threading.Thread(target=train, args=(5,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield
        del kept[::2]
        yield
    kept.clear()


def fraction_for(more: int) -> float:
    """The memory fraction that lets this process reserve `more` bytes."""
    total = torch.cuda.get_device_properties(0).total_memory
    return min(1.0, (torch.cuda.memory_reserved() + more) / total)


@scenario
def out_of_memory_that_is_retried() -> Iterator[None]:
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(fraction_for(256 * MIB))
    try:
        for step in range(STEPS // 10):
            torch.cuda.empty_cache()
            before = torch.cuda.memory_stats()["num_alloc_retries"]
            pieces = [torch.empty(30 * MIB + step, dtype=torch.uint8, device="cuda") for _ in range(6)]
            yield
            del pieces
            whole = torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")  # the cache must be flushed
            assert torch.cuda.memory_stats()["num_alloc_retries"] > before or EXPANDABLE
            yield
            del whole
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@scenario
def out_of_memory_that_is_final() -> Iterator[None]:
    for step in range(STEPS // 10):
        torch.cuda.set_per_process_memory_fraction(fraction_for(64 * MIB))
        kept = []
        try:
            while True:
                kept.append(torch.empty(9 * MIB + step, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        kept.clear()
        torch.empty(1000, device="cuda")
        yield


@scenario
def every_device() -> Iterator[None]:
    devices = range(torch.cuda.device_count())
    models = [nn.Linear(64, 64).to(f"cuda:{device}") for device in devices]
    for _ in range(STEPS):
        x = torch.randn(8, 64, device="cuda:0")
        for device, model in zip(devices, models, strict=True):
            x = model(x.to(f"cuda:{device}"))
        x.sum().backward()
        yield


@scenario
def activation_checkpointing() -> Iterator[None]:
    blocks = nn.ModuleList(perceptron(8) for _ in range(3))
    for step in range(STEPS):
        x = torch.randn(16, 8, device="cuda", requires_grad=True)
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=step % 2 == 0)
        x.sum().backward()
        yield


@scenario
def raw_allocations() -> Iterator[None]:
    addresses = []
    for step in range(STEPS):
        addresses.append(torch.cuda.caching_allocator_alloc(1000 + step))
        if len(addresses) > 5:
            torch.cuda.caching_allocator_delete(addresses.pop(0))
        yield
    for address in addresses:
        torch.cuda.caching_allocator_delete(address)


@scenario
def history_and_profiler_on() -> Iterator[None]:
    torch.cuda.memory._record_memory_history(max_entries=50)
    model = perceptron()
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True):
            for _ in range(STEPS):
                model(torch.randn(8, 64, device="cuda")).sum().backward()
                yield
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
