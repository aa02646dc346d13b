"""Host memory for each live block: what the tables say of themselves, and what the process grows by."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import measure
import torch

import leakguard
from leakguard._native import core


def blocks(count: int) -> list[torch.Tensor]:
    return [torch.empty(16) for _ in range(count)]


def tables(count: int) -> float:
    """Growth of the tables, by their own account."""
    with leakguard.watch(on_exit="never"):
        kept = blocks(1)
        before = core.host_bytes()
        kept += blocks(count)
        return core.host_bytes() - before


def watched(count: int) -> float:
    """Growth of the process, the blocks' own memory and all."""
    with leakguard.watch(on_exit="never"):
        return unwatched(count)


def unwatched(count: int) -> float:
    before = measure.resident_bytes()
    kept = blocks(count)
    grown = measure.resident_bytes() - before
    kept.clear()
    return grown


def in_own_process(work: Callable[[int], float], count: int) -> float:
    """`work(count)` where no block has ever lived."""
    command = [sys.executable, __file__, "--one", work.__name__, str(count)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    if "--one" in sys.argv:
        work = {"tables": tables, "watched": watched, "unwatched": unwatched}[sys.argv[-2]]
        print(work(int(sys.argv[-1])))
        return
    figures: dict[str, float] = {}
    for count in (1_000, 100_000) if measure.quick() else (1_000, 100_000, 1_000_000):
        figures[f"tables_{count}"] = in_own_process(tables, count) / count
        if count >= 100_000:  # below, pages are too coarse
            grown = in_own_process(watched, count) - in_own_process(unwatched, count)
            figures[f"process_{count}"] = grown / count
    measure.emit(figures)


if __name__ == "__main__":
    main()
