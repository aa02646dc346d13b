"""The CUDA side of one watch: what is followed, what the allocator itself says, and what is known to stay.

Everything here is read from torch's allocator; nothing starts CUDA, resets a counter or calls a kernel.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable

import torch

from leakguard import _native
from leakguard._native import core
from leakguard.memory_advice import CacheState, cache_advice
from leakguard.memory_snapshot import Counter
from leakguard.report import Advice, DeviceUsage
from leakguard.reserved_steps import ReservedSteps
from leakguard.sites import line_text
from leakguard.units import format_bytes

__all__ = ["CudaMemory"]

COUNTERS = ("allocated", "active", "requested", "reserved", "inactive_split")
SMALLEST_BLOCK = 512
"""Bytes: the allocator rounds every request up to a multiple of this."""


class CudaMemory:
    """Attached from construction to `stop()`. In a torch without CUDA it knows no device and does nothing."""

    def __init__(self) -> None:
        self.trouble: dict[str, str] = {}
        self.reserved = ReservedSteps()
        self._present = torch.version.cuda is not None
        if not self._present:
            return
        self._cuda = _native.cuda
        self._emptied = 0
        self._allocations_before = _device_allocations() if self._started() else {}
        self._original = torch.cuda.memory.empty_cache
        self._counting = self._count_calls()
        torch.cuda.empty_cache = torch.cuda.memory.empty_cache = self._counting
        self._cuda.attach()
        why = self._cuda.attach_pinned()
        if why:
            self.trouble["pinned"] = why
        self._check()

    def step_ended(self, step: int) -> None:
        """Completes what had to wait for CUDA, notices when another tool has taken the allocator, and what it has
        reserved by now."""
        self._check()
        if self._started():
            for device in core.devices():
                kind, _, index = device.partition(":")
                if kind == "cuda":
                    with contextlib.suppress(RuntimeError):  # a back end without counters
                        self.reserved.note(step, device, self._cuda.counters(int(index))[1])

    def _check(self) -> None:
        _, _, _, why = self._cuda.status()
        if why:
            self.trouble["cuda"] = why
        else:
            self.trouble.pop("cuda", None)

    def stop(self) -> None:
        """Puts the allocators back."""
        if self._present:
            for owner in (torch.cuda, torch.cuda.memory):
                if vars(owner)["empty_cache"] is self._counting:
                    setattr(owner, "empty_cache", self._original)  # noqa: B010
            self._cuda.detach_pinned()
            self._cuda.detach()

    def block_sizes(self) -> dict[tuple[str, int], int]:
        """What the allocator set aside for each block in use, by (device, address)."""
        if not self._present:
            return {}
        try:
            return {(device, address): size for device, address, size, *_ in self._cuda.allocator_blocks()}
        except RuntimeError:  # a back end without a snapshot
            return {}

    def residents(self) -> dict[int, str]:
        """Addresses of the workspaces that torch keeps for its libraries, and what they are."""
        return {} if not self._present else dict(self._cuda.known_residents())

    def usage(self, device: str, bytes_per_step: float | None, peak: int) -> DeviceUsage:
        """The allocator's own figures for one device, `cuda:0`."""
        if not self._started():
            return DeviceUsage(device=device, peak_bytes=peak, bytes_per_step=bytes_per_step)
        index = int(device.partition(":")[2])
        try:
            allocated, reserved, *_ = self._cuda.counters(index)
        except RuntimeError:
            return DeviceUsage(device=device, peak_bytes=peak, bytes_per_step=bytes_per_step)
        return DeviceUsage(
            device=device,
            allocated_bytes=allocated,
            reserved_bytes=reserved,
            peak_bytes=max(peak, int(torch.cuda.memory_stats(index).get("allocated_bytes.all.peak", 0))),
            bytes_per_step=bytes_per_step,
            fragmentation=self._fragmentation(device),
            outside_allocator_bytes=_outside(index, reserved),
        )

    def memory(self, device: str) -> tuple[tuple[Counter, ...], int | None]:
        """The allocator's own figures of one device by pool, and the bytes outside it; none where it keeps none."""
        if not self._started():
            return (), None
        index = int(device.partition(":")[2])
        try:
            stats = torch.cuda.memory_stats(index)
        except RuntimeError:
            return (), None
        counters = tuple(
            Counter(
                name=name.replace("_", " "),
                pool=pool.partition("_")[0],
                current=stats[f"{key}.current"],
                peak=stats.get(f"{key}.peak"),
                total_allocated=stats.get(f"{key}.allocated"),
                total_freed=stats.get(f"{key}.freed"),
            )
            for name in COUNTERS
            for pool in ("all", "large_pool", "small_pool")
            if f"{(key := f'{name}_bytes.{pool}')}.current" in stats
        )
        return counters, _outside(index, stats.get("reserved_bytes.all.current", 0))

    def devices(self) -> list[str]:
        """Devices of which the allocator has memory, seen by the ledger or not."""
        if not self._started():
            return []
        found = []
        for index in range(torch.cuda.device_count()):
            try:
                if self._cuda.counters(index)[1]:
                    found.append(f"cuda:{index}")
            except RuntimeError:
                continue
        return found

    def advice(self, steps: int) -> tuple[Advice, ...]:
        """What is to be said of an allocation that failed, and of the caches of all devices."""
        states = [state for device in self.devices() if (state := self._state(device, steps))]
        return (*self._failure(), *(advice for state in states for advice in cache_advice(state)))

    def _count_calls(self) -> Callable[[], None]:
        original = self._original

        @functools.wraps(original)
        def empty_cache() -> None:
            self._emptied += 1
            original()

        return empty_cache

    def _state(self, device: str, steps: int) -> CacheState | None:
        index = int(device.partition(":")[2])
        try:
            allocated, reserved, active, *_ = self._cuda.counters(index)
            segments = [segment for segment in self._cuda.allocator_segments() if segment[0] == device]
            blocks = [block for block in self._cuda.allocator_blocks() if block[0] == device]
        except RuntimeError:
            return None
        residents = self.residents()
        workspaces = [block[2] for block in blocks if block[1] in residents]
        roomy = [(start, start + size) for _, start, size, used, *_ in segments if 0 < used < size]
        return CacheState(
            device=device,
            allocated=allocated,
            reserved=reserved,
            active=active,
            free_pieces=sum(used < size for _, _, size, used, *_ in segments),
            largest_free=max((segment[4] for segment in segments), default=0),
            pinning_blocks=sum(any(a <= block[1] < b for a, b in roomy) for block in blocks),
            workspaces=sum(workspaces),
            workspace_count=len(workspaces),
            private=sum(block[2] for block in blocks if block[6] != (0, 0)),
            outside=_outside(index, reserved),
            emptied=self._emptied,
            device_allocations=_device_allocations().get(index, 0) - self._allocations_before.get(index, 0),
            steps=steps,
        )

    def _failure(self) -> tuple[Advice, ...]:
        failure = self._cuda.out_of_memory() if self._present else None
        if failure is None:
            return ()
        device = f"cuda:{failure['device']}"
        holders: dict[str, int] = {}
        places: dict[int, str] = {}
        for _, requested, where, group, *_ in failure["blocks"]:
            if where == device:
                place = places.get(group) or places.setdefault(group, _birth(group))
                holders[place] = holders.get(place, 0) + requested
        most = sorted(holders.items(), key=lambda item: -item[1])[:3]
        held = "; ".join(f"{format_bytes(size)} born at {place}" for place, size in most)
        free = [segment[4] for segment in failure["segments"] if segment[0] == device]
        times = self._cuda.out_of_memory_count()
        again = f" {times} times, last" if times > 1 else ""
        return (
            Advice(
                topic="out of memory",
                text=(
                    f"{device} ran out of memory{again} at {line_text(failure['line'])}: "
                    f"{format_bytes(failure['asked'])} were asked for, the process may take "
                    f"{format_bytes(failure['limit'])}, {format_bytes(failure['device_free'])} were free on the "
                    f"device, the largest free piece in the cache was {format_bytes(max(free, default=0))}. "
                    f"Held then: {held or 'nothing known'}"
                ),
            ),
        )

    def _started(self) -> bool:
        return self._present and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]

    def _fragmentation(self, device: str) -> float | None:
        try:
            segments = [segment for segment in self._cuda.allocator_segments() if segment[0] == device]
        except RuntimeError:
            return None
        free = sum(size - active for _, _, size, active, *_ in segments)
        largest = max((segment[4] for segment in segments), default=0)
        return 1 - largest / free if free else 0.0


def _device_allocations() -> dict[int, int]:
    """How often the allocator has asked each device for memory."""
    return {
        index: int(torch.cuda.memory_stats(index).get("num_device_alloc", 0))
        for index in range(torch.cuda.device_count())
    }


def rounded(requested: float, blocks: float) -> float:
    """What the allocator sets aside for so many blocks of so many bytes in all, when it can no longer be asked."""
    if blocks <= 0:
        return 0.0
    return math.ceil(requested / blocks / SMALLEST_BLOCK) * SMALLEST_BLOCK * blocks


def _outside(index: int, reserved: int) -> int | None:
    """Memory of the device that is in use and not the caching allocator's; other processes' included."""
    if torch.cuda.is_current_stream_capturing():
        return None
    free, total = torch.cuda.mem_get_info(index)
    return max(0, total - free - reserved)


def _birth(group: int) -> str:
    _, phase, line, _, forward_line, module, *_ = core.group(group)
    place = line_text(forward_line if phase == "backward" and forward_line else line)
    return f"{place} in {module}" if module else place
