"""A million live blocks and ten million events of the CUDA caching allocator."""

from __future__ import annotations

import statistics
import time

import measure
import torch
from _pairs import held, pairs

import leakguard
from leakguard._native import core


def main() -> None:
    torch.set_num_threads(1)
    torch.zeros(1, device="cuda")
    live = 1_000_000
    target = 1_000_000 if measure.quick() else 10_000_000
    figures: dict[str, float] = {}

    def pair_ns() -> float:
        began = time.process_time_ns()
        pairs(20_000, 1024)
        return (time.process_time_ns() - began) / 20_000

    held(1000, 512)
    kept = [torch.empty(16, device="cuda") for _ in range(live)]
    bare = statistics.median(pair_ns() for _ in range(9))
    del kept
    with leakguard.watch(on_exit="never"):
        pairs(1000, 512)
        before = core.host_bytes()
        kept = [torch.empty(16, device="cuda") for _ in range(live)]
        figures["million_bytes"] = (core.host_bytes() - before) / live
        figures["million_added_ns"] = statistics.median(pair_ns() for _ in range(9)) - bare
        del kept
        history = core.Watch()
        born = core.counts("cuda:0")[4]
        resident = measure.resident_bytes()
        while core.counts("cuda:0")[4] - born < target / 2:
            pairs(10_000, 1024)
            history.mark(0.0)
        figures["events"] = 2 * (core.counts("cuda:0")[4] - born) / 1e6
        figures["grown_mib"] = (measure.resident_bytes() - resident) / 2**20
        marks = []
        for _ in range(9):
            began = time.thread_time_ns()
            for _ in range(256):
                history.mark(0.0)
            marks.append((time.thread_time_ns() - began) / 256 / 1e3)
        figures["mark_us"] = statistics.median(marks)
    measure.emit(figures)


if __name__ == "__main__":
    main()
