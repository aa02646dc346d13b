"""Where a scene runs: on the GPU, or the CUDA allocator over the fake runtime, when there is one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

from scenes.scene import Scene

CUDA_ROUNDING = 512  # bytes: the CUDA caching allocator's blocks are multiples of it
COMPUTES = "fakecuda" not in os.environ.get("LD_PRELOAD", "")


def device_of(scene: Scene) -> str:
    """The device that a scene's tensors are made on unless it says otherwise."""
    fits = scene.needs == "nothing" or (scene.needs == "values" and COMPUTES)
    return "cuda" if fits and torch.cuda.is_available() else "cpu"


@contextlib.contextmanager
def stage(scene: Scene) -> Iterator[None]:
    """One thread, the same random numbers each time, and the scene's device as torch's default."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.set_default_device(device_of(scene) if device_of(scene) != "cpu" else None)
    try:
        yield
    finally:
        torch.set_default_device(None)
        torch.set_num_threads(threads)
