"""Watching changes nothing: the scenes compute the same losses, and the CUDA allocator counts the same, with and
without it."""

from __future__ import annotations

import gc
import importlib
import math
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

torch = pytest.importorskip("torch")

from scenes.device import COMPUTES, device_of, stage  # noqa: E402
from scenes.scene import CLEAN, LEAKS, Scene, Steps  # noqa: E402

import leakguard  # noqa: E402

for file in sorted((TESTS / "scenes").glob("*_*.py")):
    if file.name.startswith(("leaks_", "clean_")):
        importlib.import_module(f"scenes.{file.stem}")

STEPS = 20
OF_ITS_TIME = ("async", "worker", "thread", "parallel", "compil", "collect")
"""Scenes with these in their names share their work with threads and processes, or wait for the garbage collector: two
unwatched runs differ too."""

ALONE = [
    scene
    for scene in [*CLEAN.values(), *LEAKS.values()]
    if not any(word in scene.name for word in OF_ITS_TIME)
]


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What each backward pass began with, whoever calls it."""
    seen: list[float] = []
    inner = torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        each = [tensors] if torch.is_tensor(tensors) else tensors
        seen.extend(float(tensor.detach().double().sum()) for tensor in each)
        inner(tensors, *args, **kwargs)

    monkeypatch.setattr(torch.autograd, "backward", backward)
    return seen


def counters(scene: Scene, run: Callable[[], None]) -> dict[str, int]:
    """What a run adds to each of the CUDA allocator's counters; nothing on the CPU."""
    if device_of(scene) == "cpu":
        run()
        return {}
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    run()
    gc.collect()
    after = torch.cuda.memory_stats()
    return {name: after[name] - before[name] for name in after}


def differs(first: Sequence[float], second: Sequence[float]) -> bool:
    return len(first) != len(second) or any(
        a != b and not (math.isnan(a) and math.isnan(b)) for a, b in zip(first, second, strict=True)
    )


@pytest.mark.parametrize(
    "scene", ALONE[:: 8 if torch.cuda.is_available() else 4], ids=lambda scene: scene.name
)
def test_watched_loop_does_the_same(scene: Scene, losses: list[float]) -> None:
    def run(watch: Callable[[], AbstractContextManager[Any]]) -> None:
        random.seed(0)
        with stage(scene), watch():
            scene.loop(Steps(STEPS))

    def watched() -> AbstractContextManager[Any]:
        return leakguard.watch(on_exit="never")

    seen: dict[str, list[float]] = {}
    counted: dict[str, dict[str, int]] = {}
    for name, watch in (("first", nullcontext), ("unwatched", nullcontext), ("watched", watched)):
        losses.clear()
        counted[name] = counters(scene, lambda watch=watch: run(watch))
        seen[name] = list(losses)
    assert counted["watched"] == counted["unwatched"]
    assert len(seen["watched"]) == len(seen["unwatched"])
    if COMPUTES:
        assert not differs(seen["watched"], seen["unwatched"])
