"""Copies of CPU storages, which torch makes past the allocator slot.

A storage that is made from Python (`copy.deepcopy` of a tensor or of a state_dict, `storage.clone()`) takes the
C library's allocator of c10, not the one in the slot. Torch lets the maker name another: while attached, `clone`
names ours, so that these blocks are in the ledger like the others. Nothing else about the copy changes.
"""

from __future__ import annotations

import functools
from typing import Any

from torch.storage import UntypedStorage, _StorageBase

from leakguard._native import core

__all__ = ["StorageCopies"]


class StorageCopies:
    """Attached from construction to `restore()`."""

    def __init__(self) -> None:
        self._original = original = _StorageBase.clone
        allocator = core.cpu_allocator()

        @functools.wraps(original)
        def clone(storage: Any) -> Any:
            if type(storage) is not UntypedStorage or storage.device.type != "cpu" or not core.watching():
                return original(storage)  # type: ignore[no-untyped-call]
            ours = UntypedStorage(storage.nbytes(), allocator=allocator)  # type: ignore[no-untyped-call]
            return ours.copy_(storage)

        self._ours = clone
        _StorageBase.clone = clone  # type: ignore[method-assign]

    def restore(self) -> None:
        """Puts torch's own function back, if ours is still there."""
        if _StorageBase.clone is self._ours:
            _StorageBase.clone = self._original  # type: ignore[method-assign]
