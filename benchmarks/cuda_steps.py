"""What watching adds to CUDA allocations and to training steps, beside torch's own memory history.

The history can be switched off altogether; leakguard leaves torch's call of its tracker behind. So the bare
state is measured first, in turns with the history, and then the watched states in turns with the stopped one.
A training step is long enough for the machine to drift between the two: there the unwatched step is the stopped
one less what a pair leaves behind, times its blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import measure
import models
import torch
from _pairs import held, pairs

import leakguard
from leakguard._native import core

BYTES = 1024
PAIRS = 1000

Configuration = Callable[[], Callable[[], None]]


def bare() -> Callable[[], None]:
    return lambda: None


def history() -> Callable[[], None]:
    torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=100_000)
    return lambda: torch.cuda.memory._record_memory_history(enabled=None)


def watched(detail: str, *modules: torch.nn.Module) -> Configuration:
    return lambda: leakguard.watch(*modules, detail=detail, on_exit="never").stop  # type: ignore[arg-type]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    steps = {name: make("cuda") for name, make in models.STEPS.items()}
    works: dict[str, tuple[Callable[[], None], int]] = {
        "pair": (lambda: pairs(PAIRS, BYTES), 3),
        "held": (lambda: held(PAIRS, BYTES), 3),
        "mlp": (steps["mlp"][1], 20),
        "transformer": (steps["transformer"][1], 4),
    }
    rounds = 10 if measure.quick() else 30
    for work, _ in works.values():
        for _ in range(5):
            work()
    times = {
        name: measure.in_turns({"bare": bare, "history": history}, work, inner, rounds)
        for name, (work, inner) in works.items()
    }
    every = [model for model, _ in steps.values()]
    with leakguard.watch(*every, on_exit="never"):  # from here on torch calls the tracker
        births = {name: births_of(work) for name, (work, _) in works.items()}
    for name, (work, inner) in works.items():
        states = {"stopped": bare, "watched": watched("lines", *every), "ops": watched("ops", *every)}
        times[name] |= measure.in_turns(states, work, inner, rounds)
    figures: dict[str, float] = {}
    for name in ("pair", "held"):
        for state in ("watched", "history", "stopped"):
            label = {"watched": "added", "stopped": "residue"}.get(state, state)
            figures[f"{name}_{label}_ns"] = (times[name][state] - times[name]["bare"]) / PAIRS
        figures[f"{name}_bare_ns"] = times[name]["bare"] / PAIRS
        figures[f"{name}_share"] = 100 * figures[f"{name}_added_ns"] / figures[f"{name}_history_ns"]
    for name in ("mlp", "transformer"):
        figures[f"{name}_bare_ms"] = times[name]["bare"] / 1e6
        figures[f"{name}_births"] = births[name]
        unwatched = times[name]["stopped"] - births[name] * figures["pair_residue_ns"]
        for state, label, base in (
            ("watched", "", unwatched),
            ("ops", "ops_", unwatched),
            ("history", "history_", times[name]["bare"]),
        ):
            figures[f"{name}_{label}percent"] = 100 * (times[name][state] / base - 1)
    measure.emit(figures)


def births_of(work: Callable[[], None]) -> int:
    """Blocks that one round of work allocates on the device."""
    work()
    before = core.counts("cuda:0")[4]
    work()
    return core.counts("cuda:0")[4] - before


if __name__ == "__main__":
    main()
