"""CPU time of a training step with every block tracked, against the same step unwatched in one process."""

from __future__ import annotations

from collections.abc import Callable

import measure
import models
import torch

import leakguard


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    figures: dict[str, float] = {}
    for name, make in models.STEPS.items():
        model, step = make()

        def unwatched() -> Callable[[], None]:
            return lambda: None

        def watched(model: torch.nn.Module = model) -> Callable[[], None]:
            return leakguard.watch(model, on_exit="never").stop

        for _ in range(5):
            step()
        inner = 20 if name == "mlp" else 4
        times = measure.in_turns(
            {"unwatched": unwatched, "watched": watched}, step, inner, rounds=10 if measure.quick() else 60
        )
        figures[f"{name}_unwatched_ms"] = times["unwatched"] / 1e6
        figures[f"{name}_watched_ms"] = times["watched"] / 1e6
        figures[f"{name}_percent"] = 100 * (times["watched"] / times["unwatched"] - 1)
        figures[f"{name}_births"] = births_of(step, model)
    measure.emit(figures)


def births_of(step: Callable[[], None], model: torch.nn.Module) -> int:
    """Blocks that one step allocates."""
    from leakguard._native import core

    with leakguard.watch(model, on_exit="never"):
        step()
        before = core.counts("cpu")[4]
        step()
        return core.counts("cpu")[4] - before


if __name__ == "__main__":
    main()
