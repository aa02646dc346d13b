"""The fingerprint of a finding: the same cause has the same one in another run, on another rank or machine.

It is made of what the user wrote and nothing else: the kind of root, the kinds and names of the references,
the function that made the block and its expression. Line numbers, sizes, addresses and folders come and go.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence

from leakguard.report import Link

INDEX = "[x]"
LONGEST_PERIOD = 4

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")
_SUBSCRIPT = re.compile(r"\[[^\[\]]*\]")
_PLAIN_KEY = re.compile(r"[^\W\d]{1,40}")
_IDLE_SPACE = re.compile(r"(?<!\w)\s+|\s+(?!\w)")
_LAST_COMMA = re.compile(r",(?=[)\]}])")


def fingerprint(root_kind: str, links: Iterable[Link], function: str | None, expression: str | None) -> str:
    """Eight hexadecimal digits.

    `root_kind` is the kind of root without its name (`module global`, `local`, `native reference`, empty when
    no holder is known); `function` the qualified name of the function that made the block; `expression` its
    source text.
    """
    chain = _fold_repeats([(link.edge, _steady_name(link)) for link in links])
    parts = [root_kind, chain, function or "", _steady_expression(expression or "")]
    return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()[:8]


def _steady_name(link: Link) -> str:
    """Indices and keys that tell one entry from another become `[x]`; a key that is a plain word is kept."""
    if link.name is None:
        return INDEX
    name = _ADDRESS.sub(INDEX, link.name.strip())
    if link.edge == "item":
        return name if _PLAIN_KEY.fullmatch(name.strip("'\"")) else INDEX
    return INDEX if name.isdecimal() else _SUBSCRIPT.sub(INDEX, name)


def _steady_expression(expression: str) -> str:
    """The text as it would be without any formatting: `f( a,\\n  b, )` and `f(a, b)` are the same."""
    bare = _IDLE_SPACE.sub("", " ".join(_ADDRESS.sub(INDEX, expression).split()))
    return _LAST_COMMA.sub("", bare)


def _fold_repeats(chain: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The chain with repeats next to each other taken once: how far a linked list or a graph has grown by the
    time of the report is a size too. Repeats of up to LONGEST_PERIOD references are found."""
    folded: list[tuple[str, str]] = []
    for step in chain:
        folded.append(step)
        for period in range(1, LONGEST_PERIOD + 1):
            if len(folded) >= 2 * period and folded[-period:] == folded[-2 * period : -period]:
                del folded[-period:]
                break
    return folded
