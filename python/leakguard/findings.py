"""From evidence to findings: what grows, joined with who keeps it.

Call sites whose blocks one holder keeps are one finding: a leaked graph is born at ten lines and has one cause. It
stands at the line that makes most of it; the other lines are listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leakguard.causes import Cause, cause_of
from leakguard.fingerprint import fingerprint
from leakguard.held import Held
from leakguard.report import Finding, Place, Steps, Verdict
from leakguard.sites import Site
from leakguard.wording import holder_phrase, pace, pieces, size, where

__all__ = ["Growing", "findings_of"]

LEAST_CUDA_BLOCK = 512
"""Bytes that the CUDA caching allocator sets aside for the smallest tensor."""


@dataclass(frozen=True, slots=True)
class Growing:
    """What is known of one growing group. Steps count from the first step of the run, 1."""

    site: Site
    first_step: int
    last_step: int
    birth_steps: int
    blocks: int
    bytes: int
    blocks_per_step: float
    bytes_per_step: float
    held: Held | None = None
    resident: str | None = None  # the library's workspace that these blocks are
    retained: bool = False  # most backward passes kept their graph
    regrown: bool = False  # few blocks, each larger than the one that it replaces


def findings_of(growing: Iterable[Growing], steps: Steps, unit: str = "step") -> tuple[Finding, ...]:
    """The findings, most bytes a step first. `unit` is the word for a step where something else is repeated."""
    clusters: dict[tuple[object, ...], list[Growing]] = defaultdict(list)
    for group in growing:
        clusters[_key(group)].append(group)
    return tuple(sorted((_finding(cluster, steps, unit) for cluster in clusters.values()), key=_order))


def _key(group: Growing) -> tuple[object, ...]:
    """Equal for groups that a reader would call one leak."""
    if group.resident is not None:
        return group.site.device, group.resident
    held = group.held
    if held is not None and held.links and held.status in ("rooted", "native"):
        return group.site.device, *held.key
    place = group.site.place
    return group.site.device, place.file, place.line, place.expression, place.function, place.phase


def _order(finding: Finding) -> tuple[float, bool, str]:
    """Most bytes a step first; among equals what the program made before what followed from it (gradients, state)."""
    follows = finding.allocated_at.phase in ("backward", "optimizer")
    return -finding.bytes_per_step, follows, finding.fingerprint


def _finding(cluster: Sequence[Growing], steps: Steps, unit: str) -> Finding:
    lead = max(
        cluster,
        key=lambda group: (group.bytes_per_step, group.site.place.phase not in ("backward", "optimizer")),
    )
    place, device, held = lead.site.place, lead.site.device, lead.held
    verdict: Verdict = "by-design" if lead.resident else _verdict(held)
    at_limit = verdict == "bounded" and _is_full(held)
    bytes_per_step = 0.0 if at_limit else sum(group.bytes_per_step for group in cluster)
    blocks_per_step = 0.0 if at_limit else sum(group.blocks_per_step for group in cluster)
    first = min(group.first_step for group in cluster)
    last = max(group.last_step for group in cluster)
    # Where one of the blocks is reached through a graph, the graph is why all of them stay.
    telling = next((group.held for group in cluster if group.held and group.held.keeps_graph), held)
    cause = cause_of(telling, place, verdict, lead.regrown, lead.retained, steps.source)
    return Finding(
        fingerprint=fingerprint(
            held.root_kind if held else "", held.links if held else (), place.function, place.expression
        ),
        verdict=verdict,
        cause=cause.slug,
        title=f"{device} grows {size(bytes_per_step)} a {unit}, {pace(first, last, lead.birth_steps, steps, unit)}",
        why=f"this is the {lead.resident}: torch keeps one for each thread and stream"
        if lead.resident
        else _why_regrown(held, place, unit)
        if lead.regrown
        else _why(telling, place, blocks_per_step, verdict, unit)
        + (_rounded_up(lead) if verdict == "growing" else ""),
        fix=_fix(cause, held, place),
        device=device,
        bytes=sum(group.bytes for group in cluster),
        blocks=sum(group.blocks for group in cluster),
        bytes_per_step=bytes_per_step,
        blocks_per_step=blocks_per_step,
        first_step=first,
        last_step=last,
        category=_category(lead),
        allocated_at=place,
        root=held.root if held else "",
        retained_by=held.links if held else (),
        retained_bytes=held.retained_bytes if held else 0,
        example=held.example if held else None,
        also_born_at=_other_places(cluster, place),
    )


def _category(group: Growing) -> str:
    if group.resident is not None:
        return "temporary"
    return "unknown" if group.held is None else group.held.category


def _other_places(cluster: Sequence[Growing], first: Place) -> tuple[Place, ...]:
    places: list[Place] = []
    for group in sorted(cluster, key=lambda group: -group.bytes_per_step):
        if group.site.place != first and group.site.place not in places:
            places.append(group.site.place)
    return tuple(places)


def _verdict(held: Held | None) -> Verdict:
    if held is None:
        return "growing"
    if held.status == "garbage":
        return "waiting-for-gc" if held.collectable else "growing"
    if held.status == "not-found":
        return "no-owner"
    if held.container is not None and held.container.limit is not None:
        return "bounded"
    return "growing"


def _is_full(held: Held | None) -> bool:
    container = held.container if held else None
    return container is not None and container.limit is not None and container.length >= container.limit


def _why(held: Held | None, place: Place, blocks_per_step: float, verdict: Verdict, unit: str) -> str:
    made = f"{where(place)} makes {pieces(blocks_per_step, unit)}"
    if held is None:
        return f"{made} that nothing lets go of"
    if verdict == "no-owner":
        return f"{made}, and no Python object holds them: C++ code does"
    if held.status == "garbage":
        return (
            f"what {where(place)} makes is left in reference cycles, garbage that waits for the collector"
            if verdict == "waiting-for-gc"
            else f"what {where(place)} makes is left in reference cycles that the collector can never free"
        )
    phrase = holder_phrase(held.root, held.links, held.holder)
    kept = (
        f"every {unit}'s result and its autograd graph"
        if held.keeps_graph
        else f"what {where(place)} makes in every {unit}"
    )
    container = held.container
    if verdict == "bounded" and container is not None and container.limit is not None:
        return f"{phrase} keeps {kept}, {_limit(container.length, container.limit, held, unit)}"
    return f"{phrase} keeps {kept}"


def _rounded_up(group: Growing) -> str:
    """Of many small tensors on a GPU the allocator's rounding is what counts."""
    asked = group.held.block_bytes if group.held else 0
    if not 0 < 4 * asked <= LEAST_CUDA_BLOCK or group.bytes != LEAST_CUDA_BLOCK * group.blocks:
        return ""
    return f", each of {size(asked)}, for which {size(LEAST_CUDA_BLOCK)} are set aside"


def _why_regrown(held: Held | None, place: Place, unit: str) -> str:
    made = f"{where(place)} replaces it by a larger one in every {unit}"
    if held is None or held.status not in ("rooted", "native"):
        return f"a tensor is never let go of: {made}"
    return f"{holder_phrase(held.root, held.links, held.holder)} keeps all there ever was: {made}"


def _limit(length: int, limit: int, held: Held, unit: str) -> str:
    """What the limit will cost. Length and bytes are of the look, which may be long ago."""
    if length >= limit:
        return f"and is at its limit of {limit} items"
    filled = f"up to its limit of {limit} items ({length} at {unit} {held.seen_at})"
    return f"{filled}: {size(held.retained_bytes / length * limit)} then" if held.retained_bytes else filled


def _fix(cause: Cause, held: Held | None, place: Place) -> str | None:
    if cause.fix is None:
        return None
    name = (
        (held.links[min(held.holder, len(held.links) - 1)].name or held.root_name)
        if held and held.links
        else None
    )
    return cause.fix.replace("{holder}", name or "the holder").replace(
        "{expression}", place.expression or "the result"
    )
