"""Calls back when torch has been imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["when_torch_loads"]


def when_torch_loads(call: Callable[[], None]) -> None:
    """Calls `call()` once, as soon as `import torch` has ended; at once when that is past."""
    if "torch" in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _TorchFinder(call))


class _TorchFinder(MetaPathFinder):
    """Finds torch as the others would, with a loader that says when it is done, and leaves the path then.
    Being asked is not enough: many libraries look for torch's spec to know whether they could import it."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        spec = _found_by_others(self, fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _TorchLoader(spec.loader, self._loaded)
        return spec

    def _loaded(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._call()


def _found_by_others(
    finder: MetaPathFinder, fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for other in list(sys.meta_path):
        find = None if other is finder else getattr(other, "find_spec", None)
        spec: ModuleSpec | None = find(fullname, path, target) if find is not None else None
        if spec is not None:
            return spec
    return None


class _TorchLoader(Loader):
    def __init__(self, loader: Loader, call: Callable[[], None]) -> None:
        self._loader = loader
        self._call = call

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._call()

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)
