"""Who keeps a tensor alive, and who keeps what: asked now, of any tensor, leak or not. Needs torch.

Each question is one walk over the Python heap and the autograd graph; it stops the process for about as long as a
garbage collection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch

from leakguard._native import core
from leakguard.held import Held
from leakguard.holders import held_of, own_frames
from leakguard.ownership import Owner, Owners, Why
from leakguard.report import Example
from leakguard.sites import site_of
from leakguard.wording import holder_phrase

__all__ = ["held_by_address", "owners", "phrase_of", "why"]

MOST_OWNERS = 8
"""Owners named for one tensor."""

MOST_BLOCKS = 2000
"""Blocks whose holders are looked up for a table, the largest first."""


def why(tensor: torch.Tensor, first_step: int | None) -> Why:
    """What keeps `tensor` alive, besides the variable that it was handed over in.

    `first_step` is the ledger's number of the step that is 1 to the user; None when nothing is watched.

    Raises TypeError for what is no tensor, and ValueError for a tensor without memory of its own (meta, sparse, fake).
    """
    address, size = _storage(tensor)
    held = _nearest(address)
    block = _block_at(address)
    return Why(
        device=str(tensor.device),
        bytes=size,
        example=Example(
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            requires_grad=tensor.requires_grad,
        ),
        held=held.status in ("rooted", "native"),
        root=held.root,
        retained_by=held.links,
        retained_bytes=held.retained_bytes,
        also_held_by=tuple(dict.fromkeys(root for root in held.others if not root.startswith("temporary "))),
        allocated_at=site_of(block[4]).place if block is not None else None,
        step=block[3] - first_step + 1
        if block is not None and first_step is not None and block[3] >= first_step
        else None,
    )


def owners() -> Owners:
    """The live blocks that were born under watch, by who holds them: the 2 000 largest of them; how many are left out
    is said in the table."""
    blocks = core.blocks()
    held = held_by_address(blocks)
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for block in blocks:
        if block[0] in held:
            total = sums[block[2], phrase_of(held[block[0]])]
            total[0] += block[1]
            total[1] += 1
    rows = [
        Owner(device=device, holder=holder, bytes=size, blocks=count)
        for (device, holder), (size, count) in sums.items()
    ]
    left_out = len(blocks) - sum(row.blocks for row in rows)
    return Owners(tuple(sorted(rows, key=lambda row: (-row.bytes, row.holder))), left_out)


def held_by_address(blocks: Iterable[tuple[Any, ...]]) -> dict[int, Held]:
    """Who holds the largest of these blocks of the ledger, MOST_BLOCKS at most. One walk."""
    addresses = [block[0] for block in sorted(blocks, key=lambda block: -block[1])[:MOST_BLOCKS]]
    if not addresses:
        return {}
    found = core.find_holders(addresses, list(range(len(addresses))), own_frames(), 1)
    return {
        address: held_of(suspect, 0) for address, suspect in zip(addresses, found["suspects"], strict=True)
    }


def _storage(tensor: torch.Tensor) -> tuple[int, int]:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"why() takes a tensor, and got {type(tensor).__name__}")
    try:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
    except (RuntimeError, NotImplementedError) as error:
        raise ValueError(
            f"this tensor has no memory of its own ({tensor.layout}, {tensor.device}): ask for its parts"
        ) from error
    if address == 0:
        raise ValueError(f"this tensor has no memory: it is empty, or on the {tensor.device} device")
    return address, storage.nbytes()


def _nearest(address: int) -> Held:
    """Whoever holds it beside the caller's frame; when nobody does, the caller's frame."""
    frames = own_frames()
    for muted in (frames + 1, frames):
        (suspect,) = core.find_holders([address], [0], muted, MOST_OWNERS)["suspects"]
        held = held_of(suspect, 0)
        if held.status == "rooted":
            break
    return held


def _block_at(address: int) -> tuple[Any, ...] | None:
    return next((block for block in core.blocks() if block[0] == address), None)


def phrase_of(held: Held) -> str:
    """The holder in a few words."""
    if held.status == "garbage":
        return "garbage that waits for the collector" if held.collectable else "garbage that stays"
    if not held.links:
        return "nobody in Python"
    return holder_phrase(held.root, held.links, held.holder).removesuffix(",")
