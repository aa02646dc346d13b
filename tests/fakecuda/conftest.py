"""Tests of the fake itself: `python tests/fakecuda/launch.py python -m pytest tests/fakecuda`."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import fakecuda

torch = importlib.util.find_spec("torch")
if (
    torch is None
    or torch.origin is None
    or not (Path(torch.origin).parent / "lib" / "libtorch_cuda.so").exists()
):
    collect_ignore_glob = ["test_*.py"]  # the fake serves CUDA builds of torch only

Run = Callable[..., str]


@pytest.fixture
def device() -> Iterator[None]:
    """The fake device, left as it was found; nothing that is not provided may have been called."""
    if not fakecuda.active:
        pytest.skip("start with tests/fakecuda/launch.py")
    import torch

    before = fakecuda.last_unimplemented()
    yield
    fakecuda.fail_allocations(0, 0)
    fakecuda.set_foreign_bytes(0, 0)
    torch.cuda.memory._record_memory_history(enabled=None)
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert fakecuda.last_unimplemented() == before


@pytest.fixture
def in_fresh_process() -> Run:
    """Runs code that needs its own settings and returns what it prints; it must not raise."""
    if not fakecuda.active:
        pytest.skip("start with tests/fakecuda/launch.py")

    def run(code: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", "import torch, fakecuda\n" + textwrap.dedent(code)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
