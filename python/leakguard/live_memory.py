"""The snapshot of live memory, out of the ledger and the allocators' own figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from leakguard._native import core
from leakguard.categories import Categories, Role
from leakguard.cuda_memory import CudaMemory
from leakguard.memory_snapshot import Counter, DeviceMemory, LiveGroup, Snapshot
from leakguard.sites import Site, site_of

__all__ = ["take_snapshot"]


def take_snapshot(
    step: int, devices: Iterable[str], peaks: Mapping[str, int], cuda: CudaMemory, categories: Categories
) -> Snapshot:
    """What is alive now. `peaks` are the most bytes at once that the ledger has seen on each device."""
    sizes = cuda.block_sizes()
    keys: dict[tuple[int, Role, bool], list[tuple[int, ...]]] = {}
    requested: dict[tuple[int, Role, bool], int] = {}
    for block in core.blocks():
        address, asked, device, _, group, _, _, pending, _, _, birth = block
        key = (group, categories.of(block), pending)
        size = sizes.get((device, address), asked)
        keys.setdefault(key, []).append((address, birth, size))
        requested[key] = requested.get(key, 0) + asked
    sites: dict[int, Site] = {group: site_of(group) for group in {group for group, *_ in keys}}
    groups = [
        LiveGroup(
            device=sites[group].device,
            place=replace(sites[group].place, module=role.module),
            category=role.category,
            requested_bytes=requested[group, role, pending],
            pending=pending,
            private_pool=sites[group].private_pool,
            keys=tuple(sorted(found)),
        )
        for (group, role, pending), found in keys.items()
    ]
    groups.sort(key=lambda group: (-group.bytes, min(birth for _, birth, _ in group.keys)))
    return Snapshot(
        step=step,
        devices=tuple(_memory(device, peaks.get(device, 0), cuda) for device in devices),
        groups=tuple(groups),
    )


def _memory(device: str, peak: int, cuda: CudaMemory) -> DeviceMemory:
    counters, outside = cuda.memory(device) if device.startswith("cuda") else ((), None)
    if not counters:
        _, live, _, pending, _, born = core.counts(device)
        counters = (
            Counter(
                name="requested",
                current=live + pending,
                peak=max(peak, live + pending),
                total_allocated=born,
                total_freed=born - live - pending,
            ),
        )
    return DeviceMemory(device=device, counters=counters, outside_allocator_bytes=outside)
