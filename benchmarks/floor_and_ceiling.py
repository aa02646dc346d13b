"""What is found and who is accused: small and large leaks in every rhythm, and loops that do not leak.

Floor: a leak of one size in one rhythm, asked after each of its leaking steps from the sixth on; the figure is the
leaking step at which the report first said `leak`. Ceiling: the clean loops of tests/scenes, 200 steps each; the
figures are how many were called a leak and how many were given a warning.

    python benchmarks/floor_and_ceiling.py [--quick] [--table]

`--quick` takes one size for each rhythm, and every fifth clean loop. `--table` prints a table for people; without it
the last line is the sums as JSON. leakguard must be importable.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

import leakguard

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from scenes.parts import Classifier, batch, train_step  # noqa: E402
from scenes.scene import CLEAN, Scene, Steps  # noqa: E402

SIZES = {"4 B": 4, "512 B": 512, "4 KiB": 4096, "1 MiB": 2**20, "100 MiB": 100 * 2**20}
LEAKING_STEPS = 20
CLEAN_STEPS = 200
MOST_CLEAN_STEPS = 480

Keep = Callable[[], None]
Rhythm = Callable[[Callable[[], None], Keep], Iterator[None]]


def every_step(train: Callable[[], None], keep: Keep) -> Iterator[None]:
    while True:
        train()
        keep()
        yield


def every_tenth_step(train: Callable[[], None], keep: Keep) -> Iterator[None]:
    while True:
        for _ in range(10):
            train()
        keep()
        yield


def every_epoch_of_50(train: Callable[[], None], keep: Keep) -> Iterator[None]:
    while True:
        for _ in range(50):
            train()
        keep()
        yield


def in_a_helper_thread(train: Callable[[], None], keep: Keep) -> Iterator[None]:
    with ThreadPoolExecutor(1) as helper:
        while True:
            train()
            helper.submit(keep).result()
            yield


def only_in_evaluation(train: Callable[[], None], keep: Keep) -> Iterator[None]:
    model = Classifier().eval()
    while True:
        for _ in range(8):
            train()
        with torch.no_grad():
            model(batch())
            keep()
        yield


def from_step_200(train: Callable[[], None], keep: Keep) -> Iterator[None]:
    for _ in range(200):
        train()
    yield from every_step(train, keep)


RHYTHMS: dict[str, Rhythm] = {
    "every step": every_step,
    "every 10th step": every_tenth_step,
    "every epoch of 50": every_epoch_of_50,
    "in a helper thread": in_a_helper_thread,
    "only in evaluation": only_in_evaluation,
    "from step 200 on": from_step_200,
}


def leaking_steps_until_found(rhythm: Rhythm, size: int) -> int | None:
    """How many blocks had leaked when the report said so and named the line; None when it did not in time."""
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept: list[torch.Tensor] = []

    def train() -> None:
        train_step(model, optimizer)

    def keep() -> None:
        kept.append(torch.empty(size, dtype=torch.uint8))

    line = keep.__code__.co_firstlineno + 1
    guard = leakguard.watch(on_exit="never")
    steps = rhythm(train, keep)
    try:
        for leaked, _ in enumerate(steps, 1):
            if leaked > LEAKING_STEPS:
                return None
            if leaked >= 6:
                report = guard.report()
                if report.status == "leak" and report.findings[0].allocated_at.line == line:
                    return leaked
    finally:
        steps.close()  # type: ignore[attr-defined]
        guard.stop()
    return None


def clean_scenes() -> list[Scene]:
    for file in sorted((TESTS / "scenes").glob("clean_*.py")):
        importlib.import_module(f"scenes.{file.stem}")
    return list(CLEAN.values())


def verdict_of(scene: Scene) -> str:
    """What the report said at the end of the loop, or when it had returned; the worse of the two."""
    said: list[str] = []
    guard = leakguard.watch(on_exit="never")
    count = min(max(scene.steps, CLEAN_STEPS), MOST_CLEAN_STEPS)
    try:
        scene.loop(Steps(count, lambda: said.append(guard.report().status)))
        said.append(guard.report().status)
    finally:
        guard.stop()
        gc.unfreeze()
    return max(said, key=["clean", "inconclusive", "warning", "leak"].index)


def figures(quick: bool) -> dict[str, Any]:
    sizes = ["512 B"] if quick else list(SIZES)
    found = {
        name: {size: leaking_steps_until_found(rhythm, SIZES[size]) for size in sizes}
        for name, rhythm in RHYTHMS.items()
    }
    verdicts = {scene.name: verdict_of(scene) for scene in clean_scenes()[:: 5 if quick else 1]}
    every = [steps for row in found.values() for steps in row.values()]
    return {
        "found": found,
        "verdicts": verdicts,
        "leaks": len(every),
        "leaks_missed": sum(steps is None for steps in every),
        "leaking_steps_most": max((steps for steps in every if steps is not None), default=0),
        "clean_loops": len(verdicts),
        "clean_accused": sum(said == "leak" for said in verdicts.values()),
        "clean_warned": sum(said == "warning" for said in verdicts.values()),
        "clean_undecided": sum(said == "inconclusive" for said in verdicts.values()),
    }


def table(result: dict[str, Any]) -> str:
    """Two tables: leaking steps until found, and the clean loops by what was said of them."""
    sizes = list(next(iter(result["found"].values())))
    lines = ["| leaks | " + " | ".join(sizes) + " |", "|---|" + "---:|" * len(sizes)]
    for name, row in result["found"].items():
        lines.append(f"| {name} | " + " | ".join(str(row[size] or "**missed**") for size in sizes) + " |")
    by_verdict = {
        said: [name for name, verdict in result["verdicts"].items() if verdict == said]
        for said in ("leak", "warning", "inconclusive")
    }
    lines += [
        "",
        "| clean loops | called a leak | warned of | undecided |",
        "|---:|---:|---:|---:|",
        f"| {result['clean_loops']} | {result['clean_accused']} | {result['clean_warned']} "
        f"| {result['clean_undecided']} |",
    ]
    for said, names in by_verdict.items():
        if names:
            lines += ["", f"{said}: " + ", ".join(names)]
    return "\n".join(lines)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    result = figures("--quick" in sys.argv)
    if "--table" in sys.argv:
        print(table(result))
    else:
        print(json.dumps({name: value for name, value in result.items() if isinstance(value, int)}))


if __name__ == "__main__":
    main()
