"""What grows, as the ledger's evidence says it, joined with who holds it and what the allocator sets aside for it."""

from __future__ import annotations

from collections.abc import Mapping

from leakguard._native import core
from leakguard.cuda_memory import CudaMemory, rounded
from leakguard.diagnosis import Growing
from leakguard.holders import HolderSearch
from leakguard.regrown import is_regrown
from leakguard.sites import site_of

__all__ = ["growing_sites"]

RESIDENT_SAMPLES = 64
"""Blocks of a call site that are compared with the libraries' workspaces."""


def growing_sites(
    watch: core.Watch, holders: HolderSearch, cuda: CudaMemory, graphs_retained: bool
) -> tuple[tuple[Growing, ...], dict[str, float]]:
    """What grows; and for each device the bytes a step that are set aside for it beyond what was requested.

    `graphs_retained` says whether most backward passes were called with `retain_graph`.
    """
    evidence = watch.evidence()
    base = watch.base
    set_aside = _set_aside({group for group, *_ in evidence}, cuda)
    residents = _resident_groups({group: blocks for group, _, _, _, blocks, *_ in evidence}, cuda)
    growing = []
    rounding: dict[str, float] = {}
    for group, first, last, birth_steps, blocks, size, blocks_per_step, bytes_per_step, _ in evidence:
        site = site_of(group)
        if site.private_pool:  # captured graphs keep their memory by design, and checkpoints replay it
            continue
        regrown = blocks_per_step == 0
        if regrown and not is_regrown(site.place):  # a batch made larger by plan
            continue
        ratio = 1.0
        if site.device.startswith("cuda"):
            ratio = set_aside.get(group) or rounded(size, blocks) / max(size, 1)
        rounding[site.device] = rounding.get(site.device, 0.0) + bytes_per_step * (ratio - 1)
        growing.append(
            Growing(
                site=site,
                first_step=first - base + 1,
                last_step=last - base + 1,
                birth_steps=birth_steps,
                blocks=blocks,
                bytes=round(size * ratio),
                blocks_per_step=blocks_per_step,
                bytes_per_step=bytes_per_step * ratio,
                held=holders.held(group),
                resident=residents.get(group),
                retained=graphs_retained,
                regrown=regrown,
            )
        )
    return tuple(growing), rounding


def _set_aside(groups: set[int], cuda: CudaMemory) -> dict[int, float]:
    """For each group with live CUDA blocks: bytes that the allocator set aside to bytes requested."""
    sizes = cuda.block_sizes() if groups else {}
    sums: dict[int, list[int]] = {}
    for address, requested, device, _, group, *_ in core.blocks() if sizes else ():
        if group in groups and (device, address) in sizes:
            requested_sum, size_sum = sums.setdefault(group, [0, 0])
            sums[group] = [requested_sum + requested, size_sum + sizes[device, address]]
    return {group: size / max(requested, 1) for group, (requested, size) in sums.items()}


def _resident_groups(blocks: Mapping[int, int], cuda: CudaMemory) -> dict[int, str]:
    """Groups of which every sampled block is a library's workspace. `blocks` has how many blocks each group's
    evidence is of: where most have died since, those left over do not speak for them."""
    residents = cuda.residents() if blocks else {}
    if not residents:
        return {}
    names: dict[int, list[str | None]] = {}
    for group, address, _ in core.sample_blocks(sorted(blocks), RESIDENT_SAMPLES):
        names.setdefault(group, []).append(residents.get(address))
    return {
        group: name
        for group, found in names.items()
        if len(set(found)) == 1
        and len(found) >= min(RESIDENT_SAMPLES, blocks[group])
        and (name := found[0]) is not None
    }
