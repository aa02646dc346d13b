"""What ten million events leave behind: memory, the cost of marks and diffs, knowledge of old births."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import measure
import torch

import leakguard
from leakguard._native import core

SITES = 1_000
GROWING = 10


def thousand_sites() -> Callable[[list[torch.Tensor]], None]:
    """A function of 1 000 lines that allocate: what the last ten make is kept, the rest dies at once."""
    lines = ["    kept.append(empty(16))" if i >= SITES - GROWING else "    empty(16)" for i in range(SITES)]
    text = "\n".join(["def step(kept, empty=torch.empty):", *lines])
    space: dict[str, object] = {"torch": torch}
    exec(compile(text, "/thousand_sites.py", "exec"), space)
    return space["step"]  # type: ignore[return-value]


def microseconds(work: Callable[[], object], times: int) -> float:
    """CPU time of one call, averaged over all: every 16th mark looks for growth. Median of nine such averages."""
    averages = []
    for _ in range(9):
        began = time.thread_time_ns()
        for _ in range(times):
            work()
        averages.append((time.thread_time_ns() - began) / times / 1e3)
    return statistics.median(averages)


def costs(history: core.Watch, prefix: str) -> dict[str, float]:
    for _ in range(16):
        history.mark(0.0)
    newest = history.steps - 1
    older = history.nearest(newest - 8)
    assert older is not None
    return {
        f"{prefix}_diff_us": microseconds(lambda: history.diff(older, newest), 256),
        f"{prefix}_mark_us": microseconds(lambda: history.mark(0.0), 256),
        f"{prefix}_resident": measure.resident_bytes(),
    }


def main() -> None:
    torch.set_num_threads(1)
    target = 1_000_000 if measure.quick() else 10_000_000
    step = thousand_sites()
    kept: list[torch.Tensor] = []
    with leakguard.watch(on_exit="never"):
        history = core.Watch()
        old = [torch.empty(8) for _ in range(100)]
        born_in = history.steps
        events = 0

        def go_on(until: int) -> None:
            nonlocal events
            while events < until:
                step(kept)
                history.mark(0.0)
                if len(kept) >= GROWING * 200:
                    kept.clear()
                    events += GROWING * 200
                events += 2 * SITES - GROWING

        go_on(10_000)
        figures = costs(history, "early")
        go_on(target)
        figures |= costs(history, "late")
        known = [block for block in core.blocks() if block[1] == 32 and block[3] == born_in]
        places = {core.line(core.group(block[4])[2])[0] for block in known}
        figures["old_births_known"] = len(known) if places == {__file__} else 0
        figures["grown_mib"] = (figures["late_resident"] - figures["early_resident"]) / 2**20
        figures["table_mib"] = (core.host_bytes() + history.host_bytes()) / 2**20
        figures["events"] = 2 * core.counts("cpu")[4] / 1e6
        del old
    measure.emit(figures)


if __name__ == "__main__":
    main()
