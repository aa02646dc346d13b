"""How the benchmarks measure: configurations in turns within one process, the quiet end of many rounds."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Mapping

__all__ = ["emit", "in_turns", "quick", "quiet", "resident_bytes"]


def quick() -> bool:
    """Whether a short run was asked for."""
    return "--quick" in sys.argv[1:]


def quiet(values: list[float]) -> float:
    """The 10th percentile: what the work costs when the machine leaves it alone."""
    return sorted(values)[len(values) // 10]


def in_turns(
    configurations: Mapping[str, Callable[[], Callable[[], None]]],
    work: Callable[[], None],
    inner: int,
    rounds: int,
) -> dict[str, float]:
    """Process CPU nanoseconds of one `work()` under each configuration, `inner` of them in each of the rounds.

    A configuration is a function that sets it up and returns the one that takes it down. In each round all
    have their turn, every second round backwards, so that a slow spell of the machine meets them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in configurations}
    order = list(configurations)
    for _ in range(rounds):
        for name in order:
            take_down = configurations[name]()
            work()
            gc.collect()
            gc.disable()
            for _ in range(inner):
                began = time.process_time_ns()
                work()
                times[name].append(time.process_time_ns() - began)
            gc.enable()
            take_down()
        order.reverse()
    return {name: quiet(values) for name, values in times.items()}


def resident_bytes() -> int:
    """Resident memory of this process that belongs to no file."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    raise OSError("no RssAnon in /proc/self/status: a Linux of 4.5 or later is needed")


def emit(figures: Mapping[str, float]) -> None:
    """Hands the figures of this process to run.py."""
    print(json.dumps(figures))
