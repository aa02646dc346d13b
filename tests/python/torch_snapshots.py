"""Memory snapshots as torch writes them, built by hand, in the schema of several versions."""

from __future__ import annotations

from typing import Any

MIB = 1 << 20
SITE = "/venv/lib/python3.11/site-packages"
MODULE = {"filename": f"{SITE}/torch/nn/modules/module.py", "line": 1794, "name": "_call_impl"}
FORWARD = [
    {"filename": f"{SITE}/torch/nn/functional.py", "line": 9, "name": "relu"},
    {"filename": "/home/me/net.py", "line": 41, "name": "forward"},
    MODULE,
    {"filename": "/home/me/train.py", "line": 7, "name": "main"},
]
TRAINER = [
    {"filename": f"{SITE}/torch/nn/functional.py", "line": 9, "name": "relu"},
    {"filename": f"{SITE}/trainer/loop.py", "line": 3, "name": "fit"},
    {"filename": "/usr/lib/python3.11/contextlib.py", "line": 81, "name": "inner"},
    {"filename": "/home/me/train.py", "line": 7, "name": "main"},
]
BACKWARD = [
    {"filename": "??", "line": 0, "name": "at::native::empty_cuda(long)"},
    {
        "filename": "Functions.cpp",
        "line": 0,
        "name": "torch::autograd::generated::MulBackward0::apply(std::vector<at::Tensor>&&)",
    },
    {"filename": "??", "line": 0, "name": "torch::autograd::Engine::thread_main(GraphTask*)"},
]


def block(size: int, state: str = "active_allocated", frames: Any = None, **more: Any) -> dict[str, Any]:
    return {"size": size, "requested_size": size, "state": state, "frames": frames or [], **more}


def segment(address: int, blocks: list[dict[str, Any]], kind: str = "large", **more: Any) -> dict[str, Any]:
    at = address
    for one in blocks:
        one.setdefault("address", at)
        at += one["size"]
    return {
        "device": 0,
        "address": address,
        "total_size": at - address,
        "stream": 0,
        "segment_type": kind,
        "segment_pool_id": (0, 0),
        "blocks": blocks,
        **more,
    }


def event(action: str, addr: int, size: int = 512, time_us: int = 0) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "frames": [], "time_us": time_us}


def modern() -> dict[str, Any]:
    """Two MiB in forward, one in backward, half of one waiting for a stream, and a captured graph's pool."""
    return {
        "segments": [
            segment(
                0x1000000,
                [
                    block(MIB, frames=FORWARD),
                    block(MIB, frames=FORWARD) | {"requested_size": MIB - 100},
                    block(3 * MIB, "inactive"),
                    block(MIB, frames=BACKWARD),
                    block(MIB, "inactive"),
                ],
                is_expandable=True,
            ),
            segment(0x8000000, [block(MIB // 2, "active_pending_free", TRAINER)], "small"),
            segment(0x9000000, [block(2 * MIB), block(MIB, "inactive")], segment_pool_id=(0, 3)),
        ],
        "device_traces": [
            [
                event("free_requested", 0x7000000, time_us=1_000_000),
                event("alloc", 0x1000000, MIB, time_us=2_000_000),
                event("alloc", 0x8000000, MIB // 2, time_us=2_500_000),
                event("free_requested", 0x8000000, MIB // 2, time_us=3_000_000),
                {
                    "action": "oom",
                    "size": 1,
                    "device_free": 0,
                    "stream": 0,
                    "frames": [],
                    "time_us": 4_000_000,
                },
            ]
        ],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
            "max_split_size": -1,
            "expandable_segments": True,
            "roundup_power2_divisions": {"1": 0, "2": 0},
        },
        "external_annotations": [],
    }


def growing(steps: int, ring: int | None = None) -> dict[str, Any]:
    """A block a step that stays, or of which only the last `ring` stay, and a passing one beside it."""
    trace, kept = [], []
    for step in range(steps):
        if ring and len(kept) == ring:
            trace.append(event("free_requested", kept.pop(0)))
        kept.append(0x40000000 + 512 * step)
        trace += [event("alloc", kept[-1]), event("alloc", 0x50000000), event("free_requested", 0x50000000)]
    blocks = [block(512, frames=FORWARD, address=address) for address in kept]
    return {"segments": [segment(0x40000000, blocks, "small")], "device_traces": [trace]}


def training(steps: int = 40) -> dict[str, Any]:
    """A snapshot of a loop that keeps 512 bytes in every step, beside what `modern` has."""
    data, loop = modern(), growing(steps)
    data["segments"] += loop["segments"]
    (trace,) = loop["device_traces"]
    begun = data["device_traces"][0][-1]["time_us"]
    data["device_traces"][0] += [
        one | {"time_us": begun + 10_000 * number} for number, one in enumerate(trace)
    ]
    return data
