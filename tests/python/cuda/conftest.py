"""The CUDA room against the real caching allocator: over the fake CUDA runtime, or on a GPU.

    python tests/fakecuda/launch.py python -m pytest tests/python/cuda
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fakecuda"))

import fakecuda  # noqa: E402


def why_not() -> str:
    """Why these tests cannot run here, or the empty string."""
    try:
        import torch
    except ImportError:
        return "no torch"
    if torch.version.cuda is None:
        return "this torch is not a CUDA build"
    if not torch.cuda.is_available():
        return "no GPU: start with tests/fakecuda/launch.py"
    return ""


WHY_NOT = why_not()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if WHY_NOT and here in item.path.parents and "needs_cuda" in item.fixturenames:  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.skip(reason=WHY_NOT))


@pytest.fixture
def needs_cuda() -> None:
    """Skips where there is neither a GPU nor the fake."""


def allocator_slot() -> ctypes.c_void_p:
    """torch's pointer to the CUDA allocator in use. Another tool would store its own here."""
    name = "_ZN3c104cuda20CUDACachingAllocator9allocatorE"
    return ctypes.c_void_p.in_dll(ctypes.CDLL("libc10_cuda.so"), name)


def torch_started() -> bool:
    import torch

    return torch.cuda.is_initialized()


@pytest.fixture
def cuda(needs_cuda: None) -> Iterator[object]:
    """leakguard._cuda, attached, with lines and nodes read; put back afterwards."""
    from leakguard._native import core, cuda

    core.plug_sockets()
    core.set_watching(True)
    inner = allocator_slot().value
    cuda.attach()
    if os.environ.get("LEAKGUARD_TEST_DISPLACED"):
        allocator_slot().value = inner
        assert cuda.status()[:2] == ("exact", False) or not torch_started()
    yield cuda
    cuda.detach()
    core.set_watching(False)
    core.unplug_sockets()


@contextlib.contextmanager
def stalled(stream: object) -> Iterator[None]:
    """What is submitted to the stream inside is not complete before the end."""
    import torch

    if fakecuda.active:
        with fakecuda.stalled(stream):
            yield
        return
    with torch.cuda.stream(stream):
        torch.cuda._sleep(2_000_000_000)
    yield
    stream.synchronize()  # type: ignore[attr-defined]


Run = Callable[..., str]


@pytest.fixture
def in_fresh_process(needs_cuda: None) -> Run:
    """Runs code in a process of its own and returns its standard output; it must end well."""

    def run(code: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
