"""Every test of this folder, as often as REPETITIONS says, all of them before any again."""

from __future__ import annotations

import os

import pytest
import torch

torch.set_num_threads(
    1
)  # what is computed here is tiny, and threads of torch's own would only wait for a core


@pytest.fixture(scope="session", params=range(int(os.environ.get("REPETITIONS", "1"))), autouse=True)
def repetition(request: pytest.FixtureRequest) -> int:
    return int(request.param)
