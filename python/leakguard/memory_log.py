"""The familiar line in a training loop: time, step, memory. It ends with the verdict.

for step, batch in enumerate(loader):
    ...
    leakguard.log_gpu_memory(step)

12:03:11  step 100  cuda:0 allocated 1.20 GiB, reserved 1.50 GiB, peak 1.41 GiB
12:14:02  leakguard: clean, no call site kept more memory from step to step: 4000 steps on cuda:0
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections.abc import Callable

from leakguard.guard import Guard, current, watch
from leakguard.units import format_bytes

__all__ = ["Sink", "log_gpu_memory", "log_memory_of"]

Sink = logging.Logger | Callable[[str], object] | None

_ending: set[int] = set()  # ids of the guards whose verdict will be written at exit


def log_gpu_memory(step: int, interval: int = 100, to: Sink = None) -> None:
    """Writes one line on the memory in use, in every `interval`-th step, and the verdict when the program ends.

    `to` is a `logging.Logger` (level INFO), a callable that takes the line, or None for stdout. Of each CUDA device in
    use the line has the bytes allocated, reserved and their peak; without a GPU, those of the CPU tensors. The first
    call begins to watch when nobody does (`leakguard.watch()`); with LEAKGUARD=0 nothing is watched or written.

    Raises TypeError or ValueError for arguments that make no sense; nothing else ever, so that a loop cannot fail here.
    """
    _check(step, interval, to)
    guard = current()
    if guard is None:
        try:
            guard = watch(on_exit="never")
        except ImportError as error:
            if 0 not in _ending:  # say it once
                _ending.add(0)
                sys.stderr.write(f"leakguard: not watching: {error}\n")
            return
    if guard.is_inert:
        return
    log_memory_of(guard, step, interval, to)


def log_memory_of(guard: Guard, step: int, interval: int, to: Sink) -> None:
    """As `log_gpu_memory`, for a Guard that watches."""
    _check(step, interval, to)
    if id(guard) not in _ending:
        _ending.add(id(guard))
        atexit.register(guard.guarded(lambda: _write(to, f"leakguard: {verdict_line(guard)}")))
    if step % interval == 0:
        guard.guarded(lambda: _write(to, f"step {step}  {_memory()}"))()


def verdict_line(guard: Guard) -> str:
    """Status and reason in one line."""
    report = guard.report()
    findings = [finding for finding in report.findings if report.status in ("leak", "warning")]
    told = f"{findings[0].title}: {report.why}" if findings else report.why
    return f"{report.status}, {told}"


def _check(step: int, interval: int, to: Sink) -> None:
    if isinstance(step, bool) or not isinstance(step, int):
        raise TypeError(
            f"step is a whole number, and got {type(step).__name__}: log_gpu_memory(step, interval=100)"
        )
    if isinstance(interval, bool) or not isinstance(interval, int) or interval < 1:
        raise ValueError(f"interval is {interval!r}: a whole number of steps, 1 or more")
    if to is not None and not isinstance(to, logging.Logger) and not callable(to):
        raise TypeError(f"to is a {type(to).__name__}: give a logging.Logger, a callable, or None for stdout")


def _memory() -> str:
    import torch

    devices: list[str] = []
    if torch.version.cuda is not None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for index in range(torch.cuda.device_count()):
            if torch.cuda.memory_reserved(index):
                allocated, reserved, peak = (
                    format_bytes(figure(index))
                    for figure in (
                        torch.cuda.memory_allocated,
                        torch.cuda.memory_reserved,
                        torch.cuda.max_memory_allocated,
                    )
                )
                devices.append(f"cuda:{index} allocated {allocated}, reserved {reserved}, peak {peak}")
    if not devices:
        from leakguard._native import core

        devices.append(f"cpu allocated {format_bytes(core.counts('cpu')[1])}")
    return "; ".join(devices)


def _write(to: Sink, text: str) -> None:
    rank = os.environ.get("RANK")
    line = f"[rank {rank}] {text}" if rank else text
    if isinstance(to, logging.Logger):
        to.info(line)
        return
    line = f"{time.strftime('%H:%M:%S')}  {line}"
    if to is None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    else:
        to(line)
