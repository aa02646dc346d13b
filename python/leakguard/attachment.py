"""The native side of watching, put into torch and taken out again: allocators and sockets.

Attached once for the process and counted by those who use it: a guard that stops inside a watched test must
leave the test's own watching alone, and what is attached for a whole test session costs each test nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from leakguard._native import core
from leakguard.code_rules import code_rules
from leakguard.cuda_memory import CudaMemory
from leakguard.storage_copies import StorageCopies

__all__ = ["Attachment"]

_users = 0
_packages: tuple[str, ...] | None = None
_cpu_trouble = ""
_cuda: CudaMemory | None = None
_copies: StorageCopies | None = None
_naming = 0


class Attachment:
    """One user's share, from construction to `release()`. Births are recorded while anybody has one.

    With `operators` blocks carry the name of the operator that made them, while anybody wants it: torch's
    callbacks for that cost much.

    `user_code` adds to the packages that count as the user's own until the last share is given back. Raises
    UserCodeError for a name among them that cannot be imported; then nothing was attached.
    """

    def __init__(self, user_code: Iterable[str] = (), *, operators: bool = False) -> None:
        global _users, _packages, _cpu_trouble, _cuda, _copies, _naming
        wanted = tuple(dict.fromkeys((*(_packages or ()), *user_code)))
        if wanted != _packages:
            core.set_code_rules(code_rules(wanted))
            _packages = wanted
        if _cuda is None:
            _cpu_trouble = core.attach_cpu()
            _copies = None if _cpu_trouble else StorageCopies()
            _cuda = CudaMemory()
            core.plug_sockets()
            core.set_watching(True)
        self.cuda = _cuda
        self._held = True
        self._operators = operators
        _users += 1
        _naming += operators
        core.name_operators(_naming > 0)

    @property
    def trouble(self) -> dict[str, str]:
        """Devices that are not wholly covered, and why."""
        return ({"cpu": _cpu_trouble} if _cpu_trouble else {}) | self.cuda.trouble

    def release(self) -> None:
        """Gives the share back; with the last one everything is put back. May be called twice."""
        global _users, _packages, _cuda, _copies, _naming
        if not self._held:
            return
        self._held = False
        _users -= 1
        _naming -= self._operators
        core.name_operators(_naming > 0)
        if _users == 0:
            core.set_watching(False)
            if _copies is not None:
                _copies.restore()
            core.detach_cpu()
            self.cuda.stop()
            core.unplug_sockets()
            _packages = _cuda = _copies = None
