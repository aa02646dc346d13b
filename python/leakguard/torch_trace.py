"""The history of one device in a snapshot of torch's: allocations and frees in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Trace", "read_trace", "whole"]

LIMIT = 1 << 63


@dataclass(slots=True)
class Trace:
    """Sums over the events. `open` has the blocks that were born in them and not freed: by address, the number of the
    event and the time in microseconds, 0 where no time is recorded."""

    events: int = 0
    births: int = 0
    frees: int = 0
    out_of_memory: int = 0
    frees_unexplained: int = 0
    seconds: float | None = None
    open: dict[int, tuple[int, int]] = field(default_factory=dict)


def read_trace(events: Sequence[Mapping[str, Any]]) -> Trace:
    """Raises LookupError, TypeError or ValueError where an event is none."""
    trace = Trace(events=len(events))
    born = trace.open
    for number, event in enumerate(events):
        action = event["action"]
        if action == "alloc":
            trace.births += 1
            born[whole(event["addr"])] = (number, whole(event.get("time_us") or 0))
        elif action == "free_requested":
            trace.frees += 1
            if born.pop(event["addr"], None) is None:
                trace.frees_unexplained += 1
        elif action == "oom":
            trace.out_of_memory += 1
    times = [whole(event["time_us"]) for event in (events[0], events[-1]) if "time_us" in event]
    if len(times) == 2:
        trace.seconds = max(times[1] - times[0], 0) / 1e6
    return trace


def whole(value: Any) -> int:
    """A size, an address, a time or a number as torch writes it. Raises ValueError for what can be none."""
    if not isinstance(value, int) or not 0 <= value < LIMIT:
        raise ValueError(f"{value!r:.60} is no size, address or number")
    return int(value)
