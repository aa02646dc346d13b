"""What the CUDA tests need of the machine, the same over the fake CUDA runtime and on a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FAKECUDA_FOLDER = Path(__file__).resolve().parents[2] / "fakecuda"
sys.path.insert(0, str(FAKECUDA_FOLDER))

import fakecuda  # noqa: E402

__all__ = ["CUDA_BUILD", "FAKECUDA_FOLDER", "allocator_slot", "fakecuda", "stalled", "why_not"]


def is_cuda_build() -> bool:
    """Whether there is a torch, and it has CUDA. Without importing it: that takes seconds."""
    spec = importlib.util.find_spec("torch")
    return (
        spec is not None
        and spec.origin is not None
        and Path(spec.origin, "../lib/libtorch_cuda.so").resolve().exists()
    )


CUDA_BUILD = is_cuda_build()


def why_not() -> str:
    """Why the CUDA tests cannot run here, or the empty string."""
    import torch

    return "" if torch.cuda.is_available() else "no GPU: start with tests/fakecuda/launch.py"


def allocator_slot() -> ctypes.c_void_p:
    """torch's pointer to the CUDA allocator in use. Another tool would store its own here."""
    name = "_ZN3c104cuda20CUDACachingAllocator9allocatorE"
    return ctypes.c_void_p.in_dll(ctypes.CDLL("libc10_cuda.so"), name)


@contextlib.contextmanager
def stalled(stream: Any) -> Iterator[None]:
    """What is submitted to the stream inside is not complete before the end."""
    import torch

    if fakecuda.active:
        with fakecuda.stalled(stream):
            yield
        return
    with torch.cuda.stream(stream):
        torch.cuda._sleep(2_000_000_000)
    yield
    stream.synchronize()
