"""leakguard: finds the line that leaks tensor memory in a PyTorch program, and what keeps it alive.

    import leakguard

    guard = leakguard.watch(model)        # one line; the training steps are found by themselves
    for batch in loader: ...              # nothing else changes
    print(guard.report())

or, with no change in the program, `python -m leakguard run train.py`.

Importing this package imports neither torch nor the native module; both are loaded by `watch`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leakguard._version import __version__

if TYPE_CHECKING:
    from leakguard.assertions import LeakError, assert_no_growth, assert_released
    from leakguard.bisection import Bisection
    from leakguard.components import component
    from leakguard.guard import Guard, step, watch
    from leakguard.memory_log import log_gpu_memory
    from leakguard.report import Finding, Report, ReportError, load
    from leakguard.step_bisect import bisect

__all__ = [
    "Bisection",
    "Finding",
    "Guard",
    "LeakError",
    "Report",
    "ReportError",
    "__version__",
    "assert_no_growth",
    "assert_released",
    "bisect",
    "cmake_prefix_path",
    "component",
    "load",
    "log_gpu_memory",
    "step",
    "watch",
]

cmake_prefix_path = os.path.join(os.path.dirname(__file__), "share", "cmake")
"""Where `find_package(leakguard)` of a C++ program's CMake looks."""

_HOME = {
    "LeakError": "assertions",
    "assert_no_growth": "assertions",
    "assert_released": "assertions",
    "Bisection": "bisection",
    "bisect": "step_bisect",
    "component": "components",
    "Guard": "guard",
    "step": "guard",
    "watch": "guard",
    "log_gpu_memory": "memory_log",
    "Finding": "report",
    "Report": "report",
    "ReportError": "report",
    "load": "report",
    "load_ipython_extension": "notebook",
    "unload_ipython_extension": "notebook",
}


def __getattr__(name: str) -> object:
    """Loads a public name at its first use."""
    import importlib

    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"leakguard.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
