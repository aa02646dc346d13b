"""Streams that can be held back, events, and graphs."""

from __future__ import annotations

import gc
import threading

import fakecuda
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("device")
MIB = 1 << 20


def test_streams_and_events():
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    side = torch.cuda.Stream()
    start.record()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.randn(1000, device="cuda") + 1
    torch.cuda.current_stream().wait_stream(side)
    stop.record()
    stop.synchronize()
    assert stop.query()
    assert side.query()
    assert start.elapsed_time(stop) >= 0


def test_a_stalled_stream_holds_back_what_waits_for_it():
    side = torch.cuda.Stream()
    with fakecuda.stalled(side):
        with torch.cuda.stream(side):
            torch.zeros(1000, device="cuda")
        assert not side.query()
        done = side.record_event()
        assert not done.query()
        torch.cuda.current_stream().wait_event(done)
        torch.zeros(1, device="cuda")
        assert not torch.cuda.current_stream().query()
        fakecuda.drain(side)
        assert done.query()
        assert torch.cuda.current_stream().query()
    assert side.query()


def test_record_stream_defers_reuse():
    side = torch.cuda.Stream()
    with fakecuda.stalled(side):
        x = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        address = x.data_ptr()
        with torch.cuda.stream(side):
            y = x + 1
        x.record_stream(side)
        del x, y
        states = {b["address"]: b["state"] for s in torch.cuda.memory_snapshot() for b in s["blocks"]}
        assert states[address] == "active_pending_free"
        assert torch.empty(4 * MIB, dtype=torch.uint8, device="cuda").data_ptr() != address
        fakecuda.drain(side)
        x, y = (torch.empty(4 * MIB, dtype=torch.uint8, device="cuda") for _ in range(2))
        assert address in (x.data_ptr(), y.data_ptr())


def test_pinned_block_waits_for_its_copy():
    side = torch.cuda.Stream()
    with fakecuda.stalled(side), torch.cuda.stream(side):
        host = torch.empty(1 << 16).pin_memory()
        address = host.data_ptr()
        host.cuda(non_blocking=True)
        del host
        assert torch.empty(1 << 16, pin_memory=True).data_ptr() != address


def test_four_threads():
    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            for size in range(1, 200):
                torch.empty(size * 1000, device="cuda").add_(1)

    before = torch.cuda.memory_allocated()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_graph_capture_and_replay(mode):
    model = torch.nn.Linear(64, 64).cuda()
    x = torch.randn(8, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model(x).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        model(x).sum().backward()
    launches = fakecuda.counter("graph_launch")
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert fakecuda.counter("graph_launch") == launches + 3
    pools = {s["segment_pool_id"] for s in torch.cuda.memory_snapshot()}
    assert graph.pool() in pools
    assert (0, 0) in pools
    del graph
    gc.collect()


def test_capture_spreads_to_streams_that_wait():
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    x = torch.zeros(1000, device="cuda")
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x + 1
            assert torch.cuda.is_current_stream_capturing()
        torch.cuda.current_stream().wait_stream(side)
    graph.replay()
    del y


def test_graph_replays_copies():
    host = torch.zeros(100).pin_memory()
    device = torch.zeros(100).cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        device.copy_(host, non_blocking=True)
    host.fill_(5)
    graph.replay()
    assert torch.equal(device.cpu(), host)


def test_forbidden_calls_break_a_capture():
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="captur"), torch.cuda.graph(graph):
        torch.zeros(1, device="cuda").item()
    torch.cuda.synchronize()


def test_graph_trees():
    """torch.compile's graph trees: warm-up, capture, checkpointed pools, replay."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()).cuda()
    compiled = torch.compile(model, backend="cudagraphs")
    launches = fakecuda.counter("graph_launch")
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        model.zero_grad(set_to_none=True)
        compiled(torch.randn(4, 16, device="cuda")).sum().backward()
    assert fakecuda.counter("graph_launch") > launches
