"""The CUDA room against the real caching allocator: over the fake CUDA runtime, or on a GPU.

python tests/fakecuda/launch.py python -m pytest tests/python/cuda
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cuda_world import CUDA_BUILD, FAKECUDA_FOLDER, allocator_slot, why_not

# No tests of a torch that has no CUDA; only the headers are there.
collect_ignore_glob = [] if CUDA_BUILD else ["test_[!w]*.py"]


@pytest.fixture
def needs_cuda() -> None:
    """Skips where there is neither a GPU nor the fake."""
    reason = why_not()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def cuda(needs_cuda: None) -> Iterator[Any]:
    """leakguard._cuda, attached, with lines and nodes read; put back afterwards."""
    from leakguard._native import core, cuda

    core.plug_sockets()
    core.set_watching(True)
    inner = allocator_slot().value
    cuda.attach()
    if os.environ.get("LEAKGUARD_TEST_DISPLACED"):
        allocator_slot().value = inner
        assert not cuda.status()[1]
    yield cuda
    cuda.detach()
    core.set_watching(False)
    core.unplug_sockets()


Run = Callable[..., str]


@pytest.fixture
def in_fresh_process(needs_cuda: None) -> Run:
    """Runs code in a process of its own and returns its standard output; it must end well."""

    path = os.pathsep.join([str(FAKECUDA_FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(code: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": path, **environment},
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
