"""Whether this process, at this call, is one that must not be watched."""

from __future__ import annotations

import os
import sys
from types import FrameType

__all__ = ["why_inert"]


def why_inert() -> str | None:
    """The reason to stay inert, as a sentence; None to watch.

    Forked children of a process in which the native module has worked are inert for ever: a lock of its
    ledger may have been held in the moment of the fork. Workers are inert: those of a DataLoader, and spawned
    children while they import the parent's script (a child that calls watch() in its own target function, as
    a rank of a distributed run does, is watched).
    """
    if os.environ.get("LEAKGUARD") == "0":
        return "leakguard is switched off by LEAKGUARD=0"
    if "torch.utils.data" in sys.modules and sys.modules["torch.utils.data"].get_worker_info() is not None:
        return "this is a DataLoader worker"
    core = sys.modules.get("leakguard._core")
    if core is not None and not core.alive():
        return "this is a forked child of a process that leakguard has watched"
    if "__mp_main__" in sys.modules and _imports_parent_script():
        return "this is a spawned worker that imports its parent's script"
    return None


def _imports_parent_script() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__mp_main__":
            return True
        frame = frame.f_back
    return False
