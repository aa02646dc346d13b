"""The native side of watching, put into torch and taken out again: allocators and sockets.

Attached once for the process and counted by those who use it: a guard that stops inside a watched test must leave the
test's own watching alone, and what is attached for a whole test session costs each test nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leakguard._native import core
from leakguard.code_rules import code_rules

__all__ = ["Attachment"]

_users = 0
_packages: tuple[str, ...] = ()
_trouble: dict[str, str] = {}


class Attachment:
    """One user's share, from construction to `release()`. Births are recorded while anybody has one.

    `user_code` adds to the packages that count as the user's own until the last share is given back.
    """

    def __init__(self, user_code: Iterable[str] = ()) -> None:
        global _users, _packages
        wanted = tuple(dict.fromkeys((*_packages, *user_code)))
        if _users == 0 or wanted != _packages:
            core.set_code_rules(code_rules(wanted))
            _packages = wanted
        if _users == 0:
            if why := core.attach_cpu():
                _trouble["cpu"] = why
            core.plug_sockets()
            core.set_watching(True)
        _users += 1
        self._held = True

    @property
    def trouble(self) -> Mapping[str, str]:
        """Devices that are not covered, and why."""
        return _trouble

    def release(self) -> None:
        """Gives the share back; with the last one everything is put back. May be called twice."""
        global _users, _packages
        if not self._held:
            return
        self._held = False
        _users -= 1
        if _users == 0:
            core.set_watching(False)
            core.detach_cpu()
            core.unplug_sockets()
            _packages = ()
            _trouble.clear()
