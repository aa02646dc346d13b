"""torch.empty(256) and its death, watched and not: the dearest ratio there is, for nothing else is done."""

from __future__ import annotations

from collections.abc import Callable

import measure
import torch

import leakguard


class Inside(torch.nn.Module):
    """Makes blocks the way a model does: below a module's forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs()
        return x


def pairs() -> None:
    empty = torch.empty
    for _ in range(500):
        empty(256)


def held() -> None:
    empty = torch.empty
    kept = [empty(256) for _ in range(500)]
    kept.clear()


def unwatched() -> Callable[[], None]:
    return lambda: None


def main() -> None:
    torch.set_num_threads(1)
    module, x = Inside(), torch.zeros(1)
    rounds = 20 if measure.quick() else 100
    figures: dict[str, float] = {}

    def watched() -> Callable[[], None]:
        return leakguard.watch(module, on_exit="never").stop

    for name, work in (("pair", pairs), ("held", held), ("in_module", lambda: module(x))):
        times = measure.in_turns({"unwatched": unwatched, "watched": watched}, work, 10, rounds)
        figures[f"{name}_unwatched_ns"] = times["unwatched"] / 500
        figures[f"{name}_added_ns"] = (times["watched"] - times["unwatched"]) / 500
    measure.emit(figures)


if __name__ == "__main__":
    main()
