"""The exactness tests again: over expandable segments, with the tracker alone, and with two devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_world import fakecuda

CONFIGURATIONS = {
    "expandable segments": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"},
    "tracker alone": {"LEAKGUARD_TEST_DISPLACED": "1"},
    "two devices": {"FAKECUDA_DEVICES": "2", "LEAKGUARD_TEST_ONLY": "every_device or four_threads or plain"},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_exact(needs_cuda, name):
    if "FAKECUDA_DEVICES" in CONFIGURATIONS[name] and not fakecuda.active:
        pytest.skip("this machine's own devices are what they are")
    environment = {**os.environ, **CONFIGURATIONS[name]}
    only = environment.pop("LEAKGUARD_TEST_ONLY", "")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", only]
    tests = str(Path(__file__).with_name("test_exact_ledger.py"))
    done = subprocess.run([*command, tests], env=environment, capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
