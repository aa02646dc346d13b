"""The CUDA caching allocator as leakguard follows it. Internal; written by hand, checked against the module.

Needs leakguard._core loaded first. Bytes throughout. Nothing here starts CUDA.
"""

from typing import TypedDict

# (tracking, wrapped, backend, why)
#   tracking   "off", "waiting" (until CUDA starts), "exact" (every block) or "counters" (totals at best)
#   wrapped    both allocator slots hold leakguard's wrapper
#   backend    the allocator by torch's name: "native", "cudaMallocAsync", ...
#   why        a sentence for the report on what is not seen or not as usual, or ""
_Status = tuple[str, bool, str, str]

# (device, address, size, requested, allocated, stream, pool); not allocated: a stream still uses it.
_AllocatorBlock = tuple[str, int, int, int, bool, int, tuple[int, int]]

# (device, address, size, active, largest_free, stream, pool, expandable)
_AllocatorSegment = tuple[str, int, int, int, int, int, tuple[int, int], bool]

# (allocated, reserved, active, inactive_split, requested, blocks, active_blocks, retries, out_of_memory)
_Counters = tuple[int, int, int, int, int, int, int, int, int]

# (missing, missing_bytes, extra, extra_bytes, differing): what the ledger lacks, has too much, has otherwise
_Reconciliation = tuple[int, int, int, int, int]

class _OutOfMemory(TypedDict):
    """What was so when an allocation failed for good, before torch raised."""

    device: int
    asked: int
    limit: int  # what this process may take: the device's memory, or the allowed fraction of it
    device_free: int  # by the driver
    step: int
    line: int  # for _core.line
    module: str
    phase: str
    blocks: list[
        tuple[int, int, str, int, int, str, bool]
    ]  # address, requested, device, group, step, module, pending
    segments: list[_AllocatorSegment]

def attach() -> _Status:
    """Follows every block from now on; what is there already is taken over, its birth unknown."""

def detach() -> None:
    """Stops following and puts torch's own allocator back where leakguard's still stands."""

def status() -> _Status:
    """The present state; also completes an attachment that waited for CUDA. Cheap enough for every step."""

def attach_pinned() -> str:
    """Follows pinned host memory as device "pinned"; returns why not, or ""."""

def detach_pinned() -> None: ...
def pinned_attached() -> bool: ...
def allocator_blocks() -> list[_AllocatorBlock]:
    """Blocks in use, from the allocator itself. Raises RuntimeError where it has no snapshot."""

def allocator_segments() -> list[_AllocatorSegment]:
    """What the allocator holds of the devices. Raises RuntimeError where it has no snapshot."""

def counters(device: int) -> _Counters:
    """The allocator's own sums. Raises RuntimeError where it keeps none, or before CUDA starts."""

def reconcile(device: int) -> _Reconciliation:
    """How the ledger differs from the allocator; all 0 when exact and nothing allocates meanwhile."""

def known_residents() -> list[tuple[int, str]]:
    """Addresses of the workspaces that torch keeps for its libraries, and what they are."""

def out_of_memory() -> _OutOfMemory | None:
    """The latest one, kept as a copy; None before the first."""

def out_of_memory_count() -> int: ...
