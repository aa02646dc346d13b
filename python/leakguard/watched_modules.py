"""Paths of the modules that run: the table by which an allocation knows its module.

The native side looks a bare address up; here the table is filled. Roots are held weakly, and an entry goes
when its module dies, so that an address that is used again never has a dead module's name.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from leakguard._native import core

if TYPE_CHECKING:
    import torch

__all__ = ["WatchedModules"]

MOST_SEARCHES = 8
"""How often the heap is searched for modules nobody named; each search costs about a garbage collection."""

DEEPEST = 64
"""Modules in one another, of which a path is made."""


class WatchedModules:
    """The root modules of one watch and the paths below them."""

    def __init__(self, roots: Iterable[torch.nn.Module]) -> None:
        self._roots: list[weakref.ref[torch.nn.Module]] = []
        self._entries: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}
        self._named_by_user = False
        self._searches = 0
        self._pause = 1  # steps between two looks, doubled by each that finds nothing new
        self._wait = 0
        self.add(roots, by_user=True)

    def add(self, roots: Iterable[torch.nn.Module], *, by_user: bool = False) -> None:
        """More roots; those that the user named give their paths to what they contain."""
        known = self.roots()
        for root in roots:
            if not any(root is module for module in known):
                self._roots.append(weakref.ref(root))
                self._named_by_user |= by_user
        self.refresh()

    def roots(self) -> list[torch.nn.Module]:
        """The roots that are alive. For the moment only: do not keep the list."""
        return [module for ref in self._roots if (module := ref()) is not None]

    def refresh(self) -> bool:
        """Enters modules that were added below the roots since; returns whether there were any."""
        before = len(self._entries)
        roots = self.roots()
        for root in roots:
            prefix = "" if len(roots) == 1 else type(root).__name__ + "."
            for path, module in root.named_modules():
                self._enter(module, prefix + path if path else type(root).__name__)
        return len(self._entries) > before

    def refresh_unknown(self) -> None:
        """At the end of a step in which modules ran that have no path: looks again. Seldom, when looking does
        not help."""
        if self._wait > 0:
            self._wait -= 1
            return
        found = self.refresh()
        if not found and not self._named_by_user:
            found = self.search()
        self._pause = 1 if found else self._pause * 2
        self._wait = self._pause

    def search(self) -> bool:
        """Finds root modules in the heap, those that no other module contains; returns whether any is new."""
        import torch

        if self._searches >= MOST_SEARCHES:
            return False
        self._searches += 1
        before = len(self._entries)
        modules = core.instances_of(torch.nn.Module)
        contained = {id(child) for module in modules for child in _children(module)}
        self.add(module for module in modules if id(module) not in contained)
        return len(self._entries) > before

    def paths(self, modules: Sequence[torch.nn.Module]) -> dict[int, str]:
        """A path for each of some modules, by its id: the one it runs under, else the way to it from the outermost
        module that contains it."""
        paths = {}
        above: dict[int, tuple[torch.nn.Module, str]] = {}
        for module in modules:
            entry = self._entries.get(id(module))
            if entry is not None and entry[0]() is module:
                paths[id(module)] = entry[1]
            for name, child in _named_children(module):
                above.setdefault(id(child), (module, name))
        for module in modules:
            if id(module) not in paths:
                names: list[str] = []
                at = module
                while id(at) in above and len(names) < DEEPEST:
                    at, name = above[id(at)]
                    names.append(name)
                paths[id(module)] = ".".join([type(at).__name__, *reversed(names)])
        return paths

    def clear(self) -> None:
        """Forgets everything."""
        self._roots.clear()
        if self._entries:
            self._entries.clear()
            core.clear_modules()

    def _enter(self, module: torch.nn.Module, path: str) -> None:
        address = id(module)
        entry = self._entries.get(address)
        if entry is not None and entry[0]() is module:
            return

        entries = self._entries  # not self: a reference's callback must keep nothing alive

        def forget(dead: weakref.ref[torch.nn.Module]) -> None:
            entry = entries.get(address)
            if entry is not None and entry[0] is dead:
                del entries[address]
                core.drop_module(address)

        self._entries[address] = weakref.ref(module, forget), path
        core.put_module(address, path)


def _children(module: torch.nn.Module) -> Iterable[torch.nn.Module]:
    return [child for _, child in _named_children(module)]


def _named_children(module: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Module]]:
    """Direct children, read where torch keeps them; a module whose __init__ has not run has none."""
    table = module.__dict__.get("_modules")
    return [entry for entry in table.items() if entry[1] is not None] if isinstance(table, dict) else ()
