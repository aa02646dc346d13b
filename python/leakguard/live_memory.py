"""The snapshot of live memory, out of the ledger and the allocators' own figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch

from leakguard._native import core
from leakguard.categories import Categories, Role
from leakguard.cuda_memory import CudaMemory
from leakguard.held import Held
from leakguard.memory_snapshot import Counter, DeviceMemory, LiveGroup, Snapshot
from leakguard.owners import held_by_address, phrase_of
from leakguard.sites import Site, site_of

__all__ = ["take_snapshot"]

Key = tuple[int, Role, bool, str | None, str | None]
"""Group, role, whether pending, holder, shape."""


def take_snapshot(
    step: int,
    devices: Iterable[str],
    peaks: Mapping[str, int],
    cuda: CudaMemory,
    categories: Categories,
    *,
    holders: bool = False,
) -> Snapshot:
    """What is alive now. `peaks` are the most bytes at once that the ledger has seen on each device; with `holders`,
    groups are told apart by who holds their blocks and by shape, too."""
    sizes = cuda.block_sizes()
    keys: dict[Key, list[tuple[int, ...]]] = {}
    requested: dict[Key, int] = {}
    blocks = core.blocks()
    held = held_by_address(blocks) if holders else {}
    for block in blocks:
        address, asked, device, _, group, _, _, pending, _, _, birth = block
        owner = held.get(address)
        holder = None if owner is None else phrase_of(owner)
        shape = None if owner is None else _shape(owner, asked)
        key = (group, categories.of(block), pending, holder, shape)
        size = sizes.get((device, address), asked)
        keys.setdefault(key, []).append((address, birth, size))
        requested[key] = requested.get(key, 0) + asked
    sites: dict[int, Site] = {group: site_of(group) for group in {group for group, *_ in keys}}
    groups = [
        LiveGroup(
            device=sites[group].device,
            place=replace(sites[group].place, module=role.module),
            category=role.category,
            requested_bytes=requested[group, role, pending, holder, shape],
            pending=pending,
            holder=holder,
            shape=shape,
            private_pool=sites[group].private_pool,
            keys=tuple(sorted(found)),
        )
        for (group, role, pending, holder, shape), found in keys.items()
    ]
    groups.sort(key=lambda group: (-group.bytes, min(birth for _, birth, _ in group.keys)))
    return Snapshot(
        step=step,
        devices=tuple(_memory(device, peaks.get(device, 0), cuda) for device in devices),
        groups=tuple(groups),
    )


def _shape(held: Held, size: int) -> str | None:
    """The tensor as which its holder has the block; None where that is a part of the block only, or none."""
    example = held.example
    if example is None or math.prod(example.shape) * getattr(torch, example.dtype).itemsize != size:
        return None
    return f"[{', '.join(map(str, example.shape))}] {example.dtype}"


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
