"""What looks like a leak and is none, and what costs memory without need: a sentence each, with the figures.

Values in, advice out: nothing here asks torch or CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from leakguard.loop_habits import Habits
from leakguard.report import Advice
from leakguard.step_table import StepRow
from leakguard.units import format_bytes
from leakguard.wording import at_line, plural

__all__ = [
    "BackwardCalls",
    "CacheState",
    "FirstSteps",
    "backward_advice",
    "cache_advice",
    "cache_growth_advice",
    "first_steps_advice",
    "habit_advice",
]

WORTH_SAYING = 0.25
"""Share of the reserved memory from which on something is said about it."""

ENOUGH_CALLS = 8

CACHE_GROWTH_BYTES = 32 * 2**20

FIRST_STEPS_BYTES = 16 * 2**20
"""What the first steps must add before somebody takes it for a leak."""


@dataclass(frozen=True, slots=True)
class CacheState:
    """The caching allocator of one device. Bytes; `waiting` blocks are freed, and another stream still uses them."""

    device: str
    allocated: int
    reserved: int
    active: int
    free_pieces: int = 0
    largest_free: int = 0
    pinning_blocks: int = 0  # live blocks in segments that have free room too
    workspaces: int = 0
    workspace_count: int = 0
    private: int = 0  # in the pools of captured graphs and of MemPool
    outside: int | None = None  # of the device, not the allocator's
    emptied: int = 0  # calls of empty_cache()
    device_allocations: int = 0  # since watching began
    steps: int = 0


@dataclass(frozen=True, slots=True)
class BackwardCalls:
    """Backward passes, and those among them that were told to retain the graph (and not to create one)."""

    all: int = 0
    retained: int = 0

    @property
    def mostly_retained(self) -> bool:
        """Whether graphs are kept as a rule, and not now and then."""
        return self.retained >= ENOUGH_CALLS and 2 * self.retained >= self.all


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """One device around the first steps. Bytes: the least alive in the first one, what was alive when the second had
    ended, the most at the end of any later one, and what is alive of two kinds."""

    device: str
    before: int
    after: int
    later: int
    gradients: int
    optimizer: int


def cache_advice(state: CacheState) -> tuple[Advice, ...]:
    """All there is to be said of one device."""
    return tuple(_cache_advice(state))


def _cache_advice(state: CacheState) -> Iterator[Advice]:
    device = state.device
    free = state.reserved - state.active
    if state.emptied >= ENOUGH_CALLS and state.emptied * 2 >= state.steps:
        yield Advice(
            topic="empty_cache",
            text=(
                f"empty_cache() ran {state.emptied} times in {plural(state.steps, 'step')}, and the device was asked "
                f"for memory {plural(state.device_allocations, 'time')}: it frees no tensor, and what it gives back "
                "has to be asked for again"
            ),
        )
    if state.reserved and free >= WORTH_SAYING * state.reserved:
        yield Advice(
            topic="cache",
            text=(
                f"{device} has {format_bytes(state.reserved)} reserved and {format_bytes(state.allocated)} allocated: "
                f"the {format_bytes(free)} between them are a cache for the next tensors, and no leak"
            ),
        )
        if state.largest_free * 2 < free:
            yield Advice(
                topic="fragmentation",
                text=(
                    f"the {format_bytes(free)} free on {device} are in {plural(state.free_pieces, 'piece')}, the "
                    f"largest {format_bytes(state.largest_free)}; {plural(state.pinning_blocks, 'live block')} keep "
                    "their segments from being joined. PYTORCH_ALLOC_CONF=expandable_segments:True avoids it"
                ),
            )
    if state.active > state.allocated:
        yield Advice(
            topic="pending free",
            text=(
                f"{format_bytes(state.active - state.allocated)} on {device} are freed and wait for another stream "
                "that uses them (record_stream): no leak"
            ),
        )
    if state.workspaces:
        yield Advice(
            topic="workspaces",
            text=(
                f"{format_bytes(state.workspaces)} on {device} are {plural(state.workspace_count, 'workspace')} of "
                "torch's libraries, one for each thread and stream, kept by design"
            ),
        )
    if state.private:
        yield Advice(
            topic="captured graphs",
            text=(
                f"{format_bytes(state.private)} on {device} are in private pools, which a captured graph keeps for "
                "its replays as long as it lives"
            ),
        )
    if state.outside is not None and state.outside > max(state.reserved, 2**30):
        yield Advice(
            topic="outside the allocator",
            text=(
                f"{format_bytes(state.outside)} of {device} are in use outside torch's allocator: the CUDA context, "
                "libraries, the executables of captured graphs (by nodes, not by tensors), other processes"
            ),
        )


def backward_advice(calls: BackwardCalls) -> tuple[Advice, ...]:
    """On `retain_graph`: when each pass retains, so does the last one over each graph."""
    if calls.retained < ENOUGH_CALLS or calls.retained < calls.all:
        return ()
    return (
        Advice(
            topic="retain_graph",
            text=(
                f"each of {calls.all} backward passes retained its graph: unless a graph is gone "
                "through again in a later step, leave retain_graph out of the last pass over it, and what it saved "
                "is freed at once"
            ),
        ),
    )


def first_steps_advice(seen: FirstSteps) -> tuple[Advice, ...]:
    """On memory that rose in the first steps and has stayed there, when gradients and optimizer state explain it."""
    rise = seen.after - seen.before
    explained = seen.gradients + seen.optimizer
    if (
        rise < FIRST_STEPS_BYTES
        or rise * 2 < seen.before
        or explained * 5 < rise * 4
        or seen.later - seen.after > rise // 20
    ):
        return ()
    parts = [
        f"{format_bytes(size)} of {name}"
        for size, name in ((seen.gradients, "gradients"), (seen.optimizer, "optimizer state"))
        if size
    ]
    return (
        Advice(
            topic="first steps",
            text=(
                f"{seen.device} rose from {format_bytes(seen.before)} to {format_bytes(seen.after)} in the first two "
                f"steps, and has stayed there: {' and '.join(parts)}, made once; no leak"
            ),
        ),
    )


def cache_growth_advice(rows: Sequence[StepRow]) -> tuple[Advice, ...]:
    """On a cache that gets larger from quarter to quarter of the run, while what its tensors take at most does not:
    the free pieces fit less and less of what is asked for. Rows of one device, the warm-up left out."""
    known = [(row.last_step, row.reserved, row.peak) for row in rows if row.reserved is not None]
    if len(known) < ENOUGH_CALLS:
        return ()
    first, length = known[0][0], known[-1][0] - known[0][0] + 1
    quarters: list[list[tuple[int, int, int]]] = [[], [], [], []]
    for step, reserved, peak in known:
        quarters[(step - first) * 4 // length].append((step, reserved, peak))
    if not all(quarters):
        return ()
    peaks = [max(peak for *_, peak in quarter) for quarter in quarters]
    unused = [quarter[-1][1] - peak for quarter, peak in zip(quarters, peaks, strict=True)]
    rise = unused[3] - unused[0]
    rises = all(earlier < later for earlier, later in pairwise(unused))
    if (
        not rises
        or rise < CACHE_GROWTH_BYTES
        or rise < WORTH_SAYING * known[-1][1]
        or peaks[3] - peaks[0] > rise // 4
    ):
        return ()
    return (
        Advice(
            topic="growing cache",
            text=(
                f"{rows[0].device} has reserved {format_bytes(rise)} more since step {quarters[0][-1][0]}, and its "
                f"tensors take at most {format_bytes(peaks[3])} as before: what is free is in pieces that other sizes "
                "do not fit. It is no leak of tensors: ask for fewer different sizes (pad to a few lengths), or set "
                "PYTORCH_ALLOC_CONF=expandable_segments:True"
            ),
        ),
    )


def habit_advice(habits: Habits, calls: BackwardCalls, *, on_gpu: bool) -> tuple[Advice, ...]:
    """On what the loop does with its loss. `on_gpu`: the loss is a CUDA tensor."""
    return tuple(_habit_advice(habits, on_gpu)) if calls.all >= ENOUGH_CALLS else ()


def _habit_advice(habits: Habits, on_gpu: bool) -> Iterator[Advice]:
    loss = habits.loss
    if habits.printed is not None and on_gpu:
        yield Advice(
            topic="print",
            text=(
                f"{habits.printed.text} ({at_line(habits.printed.file, habits.printed.line)}) reads {loss} in every "
                "step: each time the CPU waits until the GPU has come so far. Print it in every hundredth step"
            ),
        )
    if habits.summed is not None:
        yield Advice(
            topic="total with its graph",
            text=(
                f"{habits.summed.text} ({at_line(habits.summed.file, habits.summed.line)}) keeps the graph nodes of "
                f"each step until {habits.total} is let go of: add {loss}.detach(), or {loss}.item() for a float, "
                "which waits for the device"
            ),
        )
