"""Whose code a file is: the rules by which a call site is the user's line and not a library's.

The native walk over the running frames compares file names with these prefixes; the longest one wins, and a file
that no rule speaks of is the user's.
"""

from __future__ import annotations

import importlib.util
import os
import site
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from leakguard._native import core

__all__ = ["code_rules"]


class UserCodeError(ValueError):
    """A name in `user_code` that is no importable package."""


def code_rules(user_code: Iterable[str] = ()) -> list[tuple[str, int]]:
    """The (prefix, kind) pairs for this interpreter.

    `user_code` names installed packages whose code counts as the user's own. Raises UserCodeError for a name that
    cannot be found.
    """
    rules: dict[str, int] = {}
    paths = sysconfig.get_paths()
    for folder in (paths["stdlib"], paths["platstdlib"], str(Path(os.__file__).parent)):
        rules.update(dict.fromkeys(_spellings(folder), core.CODE_STANDARD))
    for folder in {paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages()}:
        rules.update(dict.fromkeys(_spellings(folder), core.CODE_LIBRARY))
    for package in ("torch", "torchgen", "functorch", "triton"):
        for folder in _folders(package):
            rules.update(dict.fromkeys(_spellings(folder), core.CODE_TORCH))
    rules.update(dict.fromkeys(_spellings(str(Path(__file__).parent)), core.CODE_STANDARD))
    for package in user_code:
        folders = list(_folders(package))
        if not folders:
            raise UserCodeError(
                f"user_code names {package!r}, and no package of that name can be imported; "
                "give the name as in `import name`"
            )
        for folder in folders:
            rules.update(dict.fromkeys(_spellings(folder), core.CODE_USER))
    return list(rules.items())


def _spellings(folder: str) -> Iterator[str]:
    """A folder as code objects may spell it: as given, and with links resolved."""
    for path in {os.path.abspath(folder), os.path.realpath(folder)}:
        yield path if path.endswith(".py") else path.rstrip("/") + "/"


def _folders(package: str) -> Iterator[str]:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    if spec.submodule_search_locations:
        yield from spec.submodule_search_locations
    elif spec.origin:
        yield spec.origin
