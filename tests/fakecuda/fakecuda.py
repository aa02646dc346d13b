"""Control interface of the fake CUDA runtime, for tests in Python.

Wraps the C functions of include/fakecuda.h. `active` is False when the process runs without
the fake: on a real GPU, or on none.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

_library = ctypes.CDLL(None)
active: bool = hasattr(_library, "fakecuda_is_active")


def _declare(name: str, result: Any, *arguments: Any) -> Any:
    if not active:
        return None
    function = getattr(_library, "fakecuda_" + name)
    function.restype = result
    function.argtypes = arguments
    return function


used_bytes = _declare("used_bytes", ctypes.c_size_t, ctypes.c_int)
pinned_bytes = _declare("pinned_bytes", ctypes.c_size_t)
set_foreign_bytes = _declare("set_foreign_bytes", None, ctypes.c_int, ctypes.c_size_t)
fail_allocations = _declare("fail_allocations", None, ctypes.c_long, ctypes.c_long)
_stall = _declare("stall", None, ctypes.c_void_p)
_drain = _declare("drain", None, ctypes.c_void_p)
_resume = _declare("resume", None, ctypes.c_void_p)
_counter = _declare("counter", ctypes.c_uint64, ctypes.c_char_p)
_last_unimplemented = _declare("last_unimplemented", ctypes.c_char_p)


def counter(name: str) -> int:
    """How often an API was called; the names are listed in fakecuda.h. Raises KeyError on others."""
    value: int = _counter(name.encode())
    if value == 2**64 - 1:
        raise KeyError(name)
    return value


def last_unimplemented() -> str:
    """The last API that was called but is not provided, or the empty string."""
    name: bytes = _last_unimplemented()
    return name.decode()


def drain(stream: Any) -> None:
    """Completes what is on a stalled `stream` (a torch.cuda.Stream); it stays stalled."""
    _drain(stream.cuda_stream)


@contextlib.contextmanager
def stalled(stream: Any) -> Iterator[None]:
    """Nothing submitted to `stream` completes inside, unless drained or synchronised."""
    _stall(stream.cuda_stream)
    try:
        yield
    finally:
        _resume(stream.cuda_stream)
