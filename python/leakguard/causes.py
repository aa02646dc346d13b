"""Known causes, as data: patterns over what holds the memory, with an explanation and a fix for each.

The patterns stand in causes.toml beside this file, and in the file that LEAKGUARD_CAUSES names; the first that fits wins,
the user's before ours. A finding that no pattern fits has the cause `unknown` and no fix.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from leakguard.holders import Held
from leakguard.report import Place

__all__ = ["Cause", "CausesError", "cause_of", "facts_of", "load_causes"]


class CausesError(ValueError):
    """A causes file that cannot be used."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One known cause. `when` maps names of facts to what they must be: a value, or a list with one of its values."""

    slug: str
    explanation: str = ""
    fix: str | None = None
    when: Mapping[str, Any] | None = None


UNKNOWN = Cause("unknown")

FACTS = (
    "verdict", "phase", "status", "root", "edge", "container", "graph", "graph_direct", "limit",
    "requires_grad", "scalar", "collectable", "edges", "root_type",
)


def cause_of(held: Held | None, place: Place, verdict: str) -> Cause:
    """The first cause whose pattern fits."""
    if held is None:
        return UNKNOWN
    facts = facts_of(held, place, verdict)
    for cause in _all_causes(os.environ.get("LEAKGUARD_CAUSES")):
        if cause.when is not None and all(_fits(facts.get(name), wanted) for name, wanted in cause.when.items()):
            return cause
    return UNKNOWN


def facts_of(held: Held, place: Place, verdict: str) -> dict[str, Any]:
    """What a pattern may ask of a finding."""
    links = held.links
    holder = links[min(held.holder, len(links) - 1)] if links else None
    after = links[held.holder + 1 :]
    graph = [link.edge for link in after if link.edge in ("grad_fn", "saved tensor", "next function")]
    example = held.example
    return {
        "verdict": verdict,
        "phase": place.phase,
        "status": held.status,
        "root": held.root_kind,
        "edge": holder.edge if holder else None,
        "container": held.container.type if held.container else None,
        "limit": held.container is not None and held.container.limit is not None,
        "graph": bool(graph),
        "graph_direct": bool(after) and after[0].edge == "grad_fn",
        "requires_grad": example.requires_grad if example else None,
        "scalar": example is not None and example.shape in ((), (1,)),
        "collectable": held.collectable,
        "edges": {link.edge for link in links},
        "root_type": holder.type if holder else None,
    }


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
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise CausesError(f"{path} cannot be read as causes: {error}") from error
    causes = []
    for number, entry in enumerate(entries, 1):
        unknown = set(entry) - {"slug", "explanation", "fix", "when"} | set(entry.get("when", {})) - set(FACTS)
        if unknown or "slug" not in entry:
            what = f"does not know {', '.join(sorted(unknown))}" if unknown else "has no slug"
            raise CausesError(f"{path}: cause {number} {what}; a pattern may ask for {', '.join(FACTS)}")
        causes.append(Cause(**entry))
    return tuple(causes)
