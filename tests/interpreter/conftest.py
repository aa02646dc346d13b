"""The heap walk's tests need its test-only module; a missing build is a named skip."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

_PYTHON = sys.version.split()[0]
_MISSING = f"_heap is not built for Python {_PYTHON}: put the folder that holds it on PYTHONPATH"

if importlib.util.find_spec("_heap") is None:
    if os.environ.get("LEAKGUARD_FAIL_ON_SKIP") == "1":
        raise pytest.UsageError(_MISSING)
    collect_ignore_glob = ["test_*.py"]

    def pytest_report_header() -> str:
        return f"tests/interpreter skipped: {_MISSING}"
