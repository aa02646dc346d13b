"""memory_viz: live memory as `torch.cuda.memory._dump_snapshot` pickles it, for torch's own viewer and scripts.

A recording keeps live blocks, and neither the allocator's segments nor what has been freed. So a segment here is a run
of live blocks that lie within SEGMENT_GAP of each other, with the gaps as free blocks, and the trace is made of the
births of what is alive, oldest first. The allocator's own reserved memory is larger.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from leakguard.exports.parts import clean, frames_of, live_groups
from leakguard.memory_snapshot import LiveGroup
from leakguard.recording import Recording

__all__ = ["SEGMENT_GAP", "memory_viz"]

SEGMENT_GAP = 2 << 20
"""The smallest unit in which the CUDA allocator reserves memory; between blocks of the host everything may lie."""

LARGE = 1 << 20
"""Blocks above it come from the large pool."""


@dataclass(frozen=True, slots=True)
class _Block:
    address: int
    birth: int
    size: int
    requested: int
    group: LiveGroup
    frames: list[dict[str, Any]]

    @property
    def end(self) -> int:
        return self.address + self.size


def memory_viz(recording: Recording) -> bytes:
    """The pickle. Devices other than CUDA's follow after the last of these. Raises ReportError without live memory."""
    blocks: dict[str, list[_Block]] = {}
    for group in live_groups(recording):
        frames = [
            {"filename": frame.file, "line": frame.line, "name": frame.function}
            for frame in frames_of(group.place)
        ]
        blocks.setdefault(group.device, []).extend(_blocks(group, frames))
    numbers = _device_numbers(blocks)
    traces: list[list[dict[str, Any]]] = [[] for _ in range(max(numbers.values(), default=-1) + 1)]
    segments: list[dict[str, Any]] = []
    for device, found in blocks.items():
        gap = SEGMENT_GAP if device.startswith("cuda") else 0
        segments += [_segment(numbers[device], run) for run in _runs(found, gap)]
        traces[numbers[device]] = [_birth(block) for block in sorted(found, key=lambda block: block.birth)]
    return pickle.dumps({"segments": segments, "device_traces": traces})


def _device_numbers(devices: Iterable[str]) -> dict[str, int]:
    numbers = {name: int(name.partition(":")[2] or 0) for name in devices if name.startswith("cuda")}
    first = max(numbers.values(), default=-1) + 1
    others = sorted(set(devices) - numbers.keys())
    return numbers | {name: first + number for number, name in enumerate(others)}


def _blocks(group: LiveGroup, frames: list[dict[str, Any]]) -> Iterable[_Block]:
    """The group's blocks. What each of them was asked for is known of all together; the difference is spread."""
    unused = group.bytes - group.requested_bytes
    for number, (address, birth, size) in enumerate(group.keys):
        spared = min(unused // (group.blocks - number), max(size - 1, 0))
        unused -= spared
        yield _Block(address, birth, size, size - spared, group, frames)


def _runs(blocks: Sequence[_Block], gap: int) -> Iterable[list[_Block]]:
    """Blocks of one pool that lie together, in the order of their addresses."""
    run: list[_Block] = []
    for block in sorted(blocks, key=lambda block: block.address):
        if run and not (0 <= block.address - run[-1].end <= gap and _pool(block) == _pool(run[-1])):
            yield run
            run = []
        run.append(block)
    if run:
        yield run


def _pool(block: _Block) -> tuple[bool, bool]:
    return block.group.private_pool, block.size > LARGE


def _segment(device: int, run: list[_Block]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    at = run[0].address
    for block in run:
        if block.address > at:
            blocks.append(
                {
                    "address": at,
                    "size": block.address - at,
                    "requested_size": 0,
                    "state": "inactive",
                    "frames": [],
                }
            )
        state = "active_pending_free" if block.group.pending else "active_allocated"
        blocks.append(
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": state,
                "frames": block.frames,
            }
        )
        at = block.end
    active = sum(block.size for block in run)
    private, large = _pool(run[0])
    return {
        "device": device,
        "address": run[0].address,
        "total_size": at - run[0].address,
        "allocated_size": sum(block.size for block in run if not block.group.pending),
        "active_size": active,
        "requested_size": sum(block.requested for block in run),
        "stream": 0,
        "segment_type": "large" if large else "small",
        "segment_pool_id": (0, 1) if private else (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _birth(block: _Block) -> dict[str, Any]:
    event = {
        "action": "alloc",
        "addr": block.address,
        "size": block.size,
        "stream": 0,
        "frames": block.frames,
        "category": block.group.category,
    }
    module = block.group.place.module
    return event | ({"user_metadata": f"module {clean(module)}"} if module else {})
