"""Parts of a program that a bisect may switch off: `if leakguard.component("augment"): ...`.

Outside a bisect every part is on, and asking costs a look into two sets. A trial in a process of its own is told what
is off by an environment variable, which workers that it starts inherit.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator

__all__ = ["VARIABLE", "component", "encoded", "switched"]

VARIABLE = "LEAKGUARD_BISECT"
"""JSON: `off`, the names of the parts that are off, and `asked`, a file for the names that are asked for."""

_off: frozenset[str] = frozenset()
_asked: dict[str, None] = {}  # in the order of asking
_file: str | None = None


def component(name: str) -> bool:
    """Whether the part of the program that is called `name` is on: always, but in a trial of a bisect
    (`python -m leakguard bisect`, `leakguard.bisect`) that has it off. Raises TypeError when `name` is no string."""
    if name not in _asked:
        _note(name)
    return name not in _off


def encoded(off: Collection[str], asked: str) -> str:
    """What VARIABLE holds for a trial with these parts off; names are noted in the file `asked`, one JSON string to a
    line."""
    import json

    return json.dumps({"off": sorted(off), "asked": asked})


@contextlib.contextmanager
def switched(off: Collection[str]) -> Iterator[Collection[str]]:
    """These parts are off in this process and in what it forks. Gives the names that are asked for meanwhile."""
    global _off, _asked
    before = _off, _asked
    _off, _asked = frozenset(off), {}
    try:
        yield _asked.keys()
    finally:
        _off, _asked = before


def _note(name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a component's name is a string, not {type(name).__name__}")
    _asked[name] = None
    if _file is not None:
        import json

        with contextlib.suppress(OSError), open(_file, "a", encoding="utf-8") as file:  # the training goes on
            file.write(json.dumps(name) + "\n")


def _read_variable() -> None:
    global _off, _file
    text = os.environ.get(VARIABLE)
    if text:
        import json

        told = json.loads(text)
        _off, _file = frozenset(told["off"]), told["asked"]


_read_variable()
