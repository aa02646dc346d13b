"""Known causes, as data: patterns over what holds the memory, with an explanation and a fix for each.

The patterns stand in causes.toml beside this file, and in the file that LEAKGUARD_CAUSES names; the first that fits
wins, the user's before ours. A finding that no pattern fits has the cause `unknown` and no fix.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from leakguard.held import Held
from leakguard.report import Link, Place

__all__ = ["Cause", "CausesError", "cause_of", "facts_of", "load_causes"]


class CausesError(ValueError):
    """A causes file that cannot be used."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One known cause. `when` has patterns, of which one must fit: each maps names of facts to what they must be, a
    value or a list with one of its values."""

    slug: str
    explanation: str = ""
    fix: str | None = None
    when: tuple[Mapping[str, Any], ...] = ()


LAST_EXCEPTION = ("sys.last_exc", "sys.last_value", "sys.last_traceback")
"""Where the exception that ended a program stays."""

UNKNOWN = Cause("unknown")

ITEM_BYTES = {"float64": 8, "int64": 8, "complex64": 8, "float16": 2, "bfloat16": 2, "int16": 2}
"""Bytes of an element; the types that are not here have four or one, and are taken for four."""

FACTS = {
    "verdict": "growing, waiting-for-gc, bounded or no-owner",
    "status": "rooted, native, garbage or not-found",
    "phase": "of the birth: forward, backward, optimizer or other",
    "root": "kind of root: module global, local, native reference, ...",
    "edge": "kind of the reference that would have to let go",
    "holder": "type of the object it leads to: Tensor, list, ...",
    "container": "list, dict, deque, lru_cache, ... when the holder grows by itself, else none",
    "edges": "kinds of the references from root to tensor; one of them",
    "names": "names on the way, as the user wrote them; one of them",
    "types": "types on the way; one of them",
    "graph": "whether the holder keeps the autograd graph",
    "graph_direct": "whether the holder is itself a tensor with a graph",
    "after": "kinds of the references from the holder's on; one of them",
    "kept": "types of what the holder keeps, on the way to the tensor; one of them",
    "context": "whether the tensor is an attribute of a custom autograd Function's context",
    "source": "how the steps were found: explicit, optimizer, backward (no optimizer) or forward (no backward pass)",
    "scalar": "whether the holder's tensor has one element",
    "retained": "whether most backward passes kept their graph (retain_graph=True)",
    "resets": "whether the holder is an attribute of an object with methods update and reset, as metrics have",
    "regrown": "whether one tensor is replaced by a larger one again and again",
    "optimizer": "whether the holder keeps a whole optimizer, on the way to the tensor",
    "chained": "whether many references of one name lead from one object to the next",
    "view": "whether the tensor found is much smaller than the memory it keeps",
}


def cause_of(
    held: Held | None,
    place: Place,
    verdict: str,
    regrown: bool = False,
    retained: bool = False,
    source: str | None = None,
) -> Cause:
    """The first cause whose pattern fits."""
    if held is None:
        return UNKNOWN
    facts = facts_of(held, place, verdict) | {"regrown": regrown, "retained": retained, "source": source}
    for cause in _all_causes(os.environ.get("LEAKGUARD_CAUSES")):
        if any(all(_fits(facts.get(name), wanted) for name, wanted in when.items()) for when in cause.when):
            return cause
    return UNKNOWN


def facts_of(held: Held, place: Place, verdict: str) -> dict[str, Any]:
    """What a pattern may ask of a finding."""
    links = held.links
    holder = links[min(held.holder, len(links) - 1)] if links else None
    after = links[held.holder + 1 :]
    types = [_words(link.type) for link in links]
    holder_words = _words(holder.type if holder else None)
    edges = {link.edge for link in links}
    if held.root.endswith(LAST_EXCEPTION):  # the interpreter keeps it, not the program
        edges -= {"exception", "traceback"}
    return {
        "verdict": verdict,
        "status": held.status,
        "phase": place.phase,
        "root": held.root_kind,
        "edge": holder.edge if holder else None,
        "holder": holder_words[0] if holder_words else None,
        "container": held.container.type if held.container else "none",
        "edges": edges,
        "names": {link.name for link in links},
        "types": {word for words in types for word in words[:2]},
        "graph": held.keeps_graph,
        "graph_direct": bool(after) and after[0].edge == "grad_fn",
        "after": {link.edge for link in after},
        "kept": {word for link in after for word in _words(link.type)[:2]},
        "context": any(link.edge == "attribute" and _is_context(before) for before, link in pairwise(links)),
        "scalar": "[]" in holder_words or "[1]" in holder_words,
        "resets": held.owner_resets,
        "optimizer": any(link.edge == "attribute" and _is_optimizer_table(link) for link in after),
        "chained": any(link.edge == "attribute" and " x " in (link.type or "") for link in links),
        "view": _is_small_part(held),
    }


def _words(kind: str | None) -> list[str]:
    """`generator, batches` or `Tensor, [] float32, requires grad` in single words."""
    return (kind or "").replace(",", " ").split()


def _is_context(link: Link) -> bool:
    """The context of a custom Function is its node, and named like it: `ExpBackward`; other nodes end in a number."""
    kind = link.type or ""
    if link.edge == "cycle":
        return kind.endswith("Backward")
    return link.edge in ("grad_fn", "next function") and not kind.startswith("AccumulateGrad")


def _is_optimizer_table(link: Link) -> bool:
    """As torch.optim.Optimizer has them."""
    kind = link.type or ""
    return (link.name == "param_groups" and kind.startswith("list")) or (
        link.name == "state" and kind.startswith("defaultdict")
    )


def _is_small_part(held: Held) -> bool:
    example = held.example
    if example is None:
        return False
    part = math.prod(example.shape) * ITEM_BYTES.get(example.dtype, 4)
    return 2 * part < held.block_bytes - 512  # small blocks are not worth a word


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(value, (set, frozenset)):
        return bool(value & set(wanted if isinstance(wanted, list) else [wanted]))
    return value in wanted if isinstance(wanted, list) else value == wanted


@cache
def _all_causes(extra: str | None) -> tuple[Cause, ...]:
    own = load_causes(Path(__file__).with_name("causes.toml"))
    return (*load_causes(Path(extra)), *own) if extra else own


def load_causes(path: Path) -> tuple[Cause, ...]:
    """The causes of a file. Raises CausesError, naming the entry, when the file cannot be used."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("cause", [])
    except (OSError, ValueError) as error:
        raise CausesError(f"{path} cannot be read as causes: {error}") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CausesError(f"{path} cannot be read as causes: it has no [[cause]] tables")
    causes = []
    for number, entry in enumerate(entries, 1):
        when = entry.pop("when", [])
        patterns = tuple(when if isinstance(when, list) else [when])
        unknown = set(entry) - {"slug", "explanation", "fix"} | set().union(*patterns) - set(FACTS)
        if unknown or "slug" not in entry:
            what = f"does not know {', '.join(sorted(unknown))}" if unknown else "has no slug"
            raise CausesError(f"{path}: cause {number} {what}; a pattern may ask for {', '.join(FACTS)}")
        causes.append(Cause(**entry, when=patterns))
    return tuple(causes)
