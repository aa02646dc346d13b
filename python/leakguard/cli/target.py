"""The script or module of `leakguard run`, run as the interpreter itself would run it.

It becomes the real `__main__` module, with its own `sys.argv` and `sys.path[0]`, so that pickled classes,
spawned workers and `if __name__ == "__main__"` work as ever.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import shlex
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader


class TargetError(Exception):
    """There is nothing to run. Message and exit code are those of python itself."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Target:
    """A script (a file, or a folder or zip archive with a `__main__`), or a module by its name."""

    name: str
    arguments: tuple[str, ...]
    is_module: bool = False

    @property
    def command(self) -> str:
        """What was asked for, as one would type it."""
        return shlex.join([*(["-m"] if self.is_module else []), self.name, *self.arguments])

    def check(self) -> None:
        """Raises TargetError when the script is not there. A module shows only when it is looked for."""
        if not self.is_module and not os.path.exists(self.name):
            raise TargetError(f"can't open file {os.path.abspath(self.name)!r}: No such file or directory", 2)

    def run(self) -> None:
        """Runs it to its end in this process. Whatever it raises comes out; TargetError when it cannot be
        found."""
        sys.argv[:] = ["-m" if self.is_module else self.name, *self.arguments]
        if self.is_module:
            _set_first_path(os.getcwd())
            code, module = _module_main(self.name)
            sys.argv[0] = module.__file__ or self.name
        elif _is_container(self.name):
            folder = os.path.join(os.getcwd(), self.name)
            _set_first_path(folder)
            code, module = _container_main(folder)
        else:
            _set_first_path(os.path.dirname(os.path.realpath(self.name)))
            code, module = _script_main(os.path.join(os.getcwd(), self.name))
        sys.modules["__main__"] = module
        exec(code, module.__dict__)


def _is_container(path: str) -> bool:
    if os.path.isdir(path):
        return True
    if path.endswith((".py", ".pyc")):
        return False
    import zipfile  # a script that imports little is not made to import more

    return zipfile.is_zipfile(path)


def _set_first_path(folder: str) -> None:
    """Puts `folder` where the interpreter has put its own first entry; with -P or -I it has put none."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _script_main(path: str) -> tuple[types.CodeType, types.ModuleType]:
    if path.endswith(".pyc"):
        binary = SourcelessFileLoader("__main__", path)
        compiled = binary.get_code("__main__")
        assert compiled is not None
        return compiled, _main_module(path, loader=binary)
    with io.open_code(path) as file:
        source = file.read()
    module = _main_module(path, loader=SourceFileLoader("__main__", path))
    return compile(source, path, "exec", dont_inherit=True), module


def _container_main(path: str) -> tuple[types.CodeType, types.ModuleType]:
    spec = PathFinder.find_spec("__main__", [path])
    if spec is None:
        raise TargetError(f"can't find '__main__' module in {path!r}")
    return _code_of(spec), _main_module(spec.origin, spec=spec)


def _module_main(name: str) -> tuple[types.CodeType, types.ModuleType]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise TargetError(
            f"Error while finding module specification for {name!r} ({type(error).__name__}: {error})"
        ) from error
    if spec is None:
        raise TargetError(f"No module named {name}")
    if spec.submodule_search_locations is not None:
        if name.endswith(".__main__"):
            raise TargetError(f"Cannot use package as __main__ module: {name!r}")
        return _package_main(name)
    return _code_of(spec), _main_module(spec.origin, spec=spec)


def _package_main(name: str) -> tuple[types.CodeType, types.ModuleType]:
    try:
        return _module_main(f"{name}.__main__")
    except TargetError as error:
        raise TargetError(f"{error}; {name!r} is a package and cannot be directly executed") from error


def _code_of(spec: ModuleSpec) -> types.CodeType:
    get_code = getattr(spec.loader, "get_code", None)
    code = get_code(spec.name) if get_code else None
    if not isinstance(code, types.CodeType):
        raise TargetError(f"No code object available for {spec.name}")
    return code


def _main_module(
    file: str | None, *, spec: ModuleSpec | None = None, loader: object = None
) -> types.ModuleType:
    """A fresh `__main__` with the names that the interpreter gives to its own."""
    module = types.ModuleType("__main__")
    names: dict[str, object] = {
        "__builtins__": builtins,
        "__file__": file,
        "__annotations__": {},
        "__cached__": None,
    }
    names |= {"__spec__": spec, "__loader__": loader, "__package__": None}
    if spec is not None:
        names |= {"__loader__": spec.loader, "__package__": spec.parent, "__cached__": spec.cached}
    vars(module).update(names)
    return module


def split_arguments(module: Sequence[str] | None, rest: Sequence[str]) -> Target | None:
    """The target in what the command line has left: after `-m` its name and arguments, or a script and its
    own."""
    words = [*(module or ()), *rest]
    if module is None and words[:1] == ["--"]:
        del words[0]
    return Target(words[0], tuple(words[1:]), is_module=module is not None) if words else None
