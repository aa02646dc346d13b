"""The native ledger. Internal to leakguard; written by hand and checked against the module.

Addresses are integers, sizes bytes, steps the ledger's own numbers (a watch begins at `Watch.base`). Devices are named
"cpu", "pinned", "cuda:0".
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, final

CODE_USER: int
CODE_LIBRARY: int
CODE_STANDARD: int
CODE_TORCH: int

# (first step, last step, distinct steps of birth, blocks, bytes)
_Window = tuple[int, int, int, int, int]
# (group, first step, last step, distinct steps of birth, live blocks, live bytes, blocks a step, bytes a step, seen at)
_Evidence = tuple[int, int, int, int, int, int, float, float, int]
# (device, allocated, trough, peak, consumed)
_DeviceStep = tuple[str, int, int, int, int]
# (address, requested, device, step, group, module, node, free is pending, flags, thread, birth)
_Block = tuple[int, int, str, int, int, str, str, bool, int, int, int]
# (bits by data address, instances, whether the graph could be read)
_Facts = tuple[dict[int, int], list[Any], bool]

def set_watching(on: bool) -> None: ...
def watching() -> bool: ...
def alive() -> bool: ...
def devices() -> list[str]: ...
def counts(device: str) -> tuple[int, int, int, int, int, int]:
    """Live blocks and bytes, pending blocks and bytes, blocks and bytes ever born."""

def blocks() -> list[_Block]: ...
def blocks_at(addresses: list[int]) -> list[_Block]: ...
def begin_record(most: int) -> None:
    """Writes down births and deaths, as many as there is room for, until `end_record`."""

def end_record() -> tuple[list[tuple[bool, _Block]], int]:
    """(born or died, block) in order, and how many found no room."""

def live_range(device: str) -> tuple[int, int]:
    """Lowest and highest live bytes since the last mark of a Watch."""

def sample_blocks(groups: list[int], most: int, since: BirthMark | None = None) -> list[tuple[int, int, int]]:
    """(group, address, requested bytes) of at most `most` live blocks of each group, born after `since`, spread over
    their births."""

def survivors(marks: list[BirthMark]) -> list[tuple[int, int, int, int]]:
    """(index of the last mark before their birth, group, live blocks, live bytes). Oldest mark first."""

def group(group: int) -> tuple[str, str, int, int, int, str, str, int]:
    """Device, phase, line, via, forward line, module, node, flags."""

def group_count() -> int: ...
def group_windows(group: int) -> list[_Window]: ...
def line(line: int) -> tuple[str, str, int, int, int, int]:
    """File, qualified name, line, end line, column, end column; ("", "", 0, 0, -1, -1) when unknown."""

def lost() -> tuple[int, int, int, int]:
    """Births dropped, births unknown, blocks replaced, places refused by the full table."""

def host_bytes() -> int: ...
def allocator_seconds() -> float:
    """Estimated time in the allocator's path, of all threads, since the process began."""

def plug_sockets() -> None: ...
def unplug_sockets() -> None: ...
def name_operators(on: bool) -> None: ...
def set_code_rules(rules: list[tuple[str, int]]) -> None: ...
def attach_cpu() -> str:
    """Why it could not be attached; "" when it is."""

def detach_cpu() -> None: ...
def cpu_attached() -> bool: ...
def cpu_allocator() -> int:
    """The address of our allocator, for torch's functions that take one."""

def put_module(address: int, name: str) -> bool: ...
def drop_module(address: int) -> None: ...
def clear_modules() -> None: ...
def seek_root_modules(found: Callable[[], object] | None) -> None: ...
def seen_root_modules() -> list[int]: ...
def instances_of(cls: type) -> list[Any]: ...
def find_holders(
    addresses: list[int],
    groups: list[int] = ...,
    muted_frames: int = ...,
    most_owners: int = ...,
    parameter: type | None = ...,
    types: Sequence[type] = ...,
) -> dict[str, Any]:
    """One walk over the heap and the autograd graph: who keeps the storages at these data addresses alive.

    Addresses with the same group number were born at one place: their holder is what most of them have in common.
    With `parameter`, what `memory_facts` gives is there too, under "facts".
    """

def memory_facts(parameter: type, types: Sequence[type]) -> _Facts:
    """One walk over the heap and the autograd graph: what refers to the memory at each data address, as bits; all
    instances of the types; and whether the graph could be read."""

def data_addresses(tensor: Any, gradient: bool = False) -> list[int]:
    """Where the memory of a tensor, or of its gradient, is; several addresses for a sparse tensor, none for what
    has no memory."""

def graph_tails(tensors: list[Any], before: int, least: int) -> list[tuple[int, int, int, int, str]]:
    """Graphs behind the tensors with at least `least` nodes from before a sequence number, most such nodes first:
    (address of the tensor's storage, nodes, of these from before, line that made the newest, its name)."""

def next_sequence_number() -> int:
    """The number that this thread's next autograd node gets."""

def remember_main_file() -> None:
    """Keeps the file name of `__main__`: its globals are called after it when the script has ended."""

def heap_bytes() -> int:
    """What the process has from malloc and uses."""

TENSOR: Final[int]
PARAMETER: Final[int]
GRADIENT: Final[int]
SAVED: Final[int]
COMPUTED: Final[int]
FRESH: Final[int]
GROWING: Final[int]
UNKNOWN_MODULES: Final[int]

@final
class Watch:
    """The step history of one watch and what is growing in it."""

    def __init__(self) -> None: ...
    @property
    def steps(self) -> int: ...
    @property
    def base(self) -> int: ...
    def mark(self, seconds: float) -> int:
        """Ends a step; returns as bits whether groups are newly suspected (FRESH), any are (GROWING), and modules
        ran that have no path (UNKNOWN_MODULES). In a forked child nothing is marked, and the answer is 0."""

    def rebase(self) -> None: ...
    def growing(self) -> list[int]: ...
    def evidence(self) -> list[_Evidence]: ...
    def rows(self, since: int = 0) -> list[tuple[int, int, float, tuple[_DeviceStep, ...]]]:
        """(first step, last step, seconds, devices) of the kept marks at step `since` and later, oldest first."""

    def nearest(self, step: int) -> int | None: ...
    def diff(self, from_step: int, to_step: int) -> list[tuple[int, int, int, int, int]] | None:
        """(group, blocks more, bytes more, blocks now, bytes now); None without a kept mark at either step."""

    def host_bytes(self) -> int: ...

@final
class BirthMark:
    """A moment: tells what is born after it from what was born before. Begins no step."""

    def __init__(self) -> None: ...
    def is_now(self) -> bool:
        """Whether no block has been born since."""
