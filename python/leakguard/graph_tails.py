"""Autograd graphs that get longer with every step behind a tensor that stays small.

`total = total + loss` after the backward pass keeps no block that the ledger could count: each step adds a few
nodes, some kilobytes of host memory. What shows is the process's own heap, which rises from look to look while
the tensors do not. Then nodes are counted, behind each tensor those that are older than the look before: a
graph that is made anew in every step has none, one that is kept as it is has always the same ones. Only where
they become more from look to look, by half a node a step or more, there is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from leakguard._native import core
from leakguard.findings import Growing
from leakguard.held import Held
from leakguard.holders import held_of, own_frames
from leakguard.report import Link, Place
from leakguard.sites import Site, place_of

__all__ = ["GraphTails"]

FIRST_LOOK = 8
"""The step of the first look; later ones are at twice the step of the one before."""

SUSPICIOUS_BYTES = 512.0
"""Rise of the heap in bytes a step, net of tensors and of leakguard, from which on nodes are counted: one node with
what belongs to it. Loops that keep nothing stay below 300 while they warm up."""

LEAST_NODES_A_STEP = 0.5

MOST_TAILS = 3

VIEWS = (
    "Alias", "AsStrided", "Diagonal", "Expand", "Permute", "ReshapeAlias", "Select", "Slice", "Split", "Squeeze", "T",
    "Transpose", "Unbind", "Unfold", "Unsqueeze", "UnsafeView", "View", "ViewAs",
)  # fmt: skip
"""Nodes of operators that make no block, `ViewBackward0`: their line is not known for certain."""


@dataclass(frozen=True, slots=True)
class _Tail:
    step: int
    nodes: int
    old: int  # nodes from before the last look, at step `since`
    since: int
    heap: int
    name: str
    birth: int  # which block it was that the tensor had
    held: Held


class GraphTails:
    """Looks at steps 8, 16, 32, ...; costs an addition in between. `own_bytes` says what leakguard itself has on
    the heap."""

    def __init__(self, own_bytes: Callable[[], int]) -> None:
        self._own_bytes = own_bytes
        self.restart()

    def restart(self) -> None:
        """Forgets what was seen, as if watching began now."""
        self._step = 0
        self._due = FIRST_LOOK
        self._last: tuple[int, int, int] | None = None  # step, net bytes and sequence number of the last look
        self._tails: dict[
            int, list[_Tail]
        ] = {}  # by the line that makes the newest node; at most first and last

    def step_ended(self, quiet: bool) -> None:
        """`quiet`: no call site is under suspicion. What grows in blocks has its graph, and is no tail."""
        self._step += 1
        if self._step >= self._due:
            self._due = 2 * self._step
            self.look(quiet)

    def look(self, quiet: bool) -> None:
        """Compares the heap with the last look's; counts nodes when it rose."""
        tensors = sum(core.counts(device)[1] for device in core.devices() if not device.startswith("cuda"))
        heap = core.heap_bytes() - tensors - self._own_bytes()
        before, self._last = self._last, (self._step, heap, core.next_sequence_number())
        if before is None or not quiet or self._step <= before[0]:
            return
        if heap - before[1] >= SUSPICIOUS_BYTES * (self._step - before[0]):
            self._count_nodes(heap, before[0], before[2])

    def _count_nodes(self, heap: int, since: int, sequence: int) -> None:
        tensors = core.instances_of(torch.Tensor)
        births = {block[0]: block[-1] for block in core.blocks()}
        least = max(1, int(LEAST_NODES_A_STEP * since))
        for address, nodes, old, line, name in core.graph_tails(tensors, sequence, least)[:MOST_TAILS]:
            if name.partition("Backward")[0] in VIEWS:
                line = 0
            suspect = core.find_holders([address], [0], own_frames())["suspects"][0]
            tail = _Tail(
                self._step,
                nodes,
                old,
                since,
                heap,
                name,
                births.get(address, 0),
                held_of(suspect, self._step),
            )
            self._tails[line] = [*self._tails.get(line, ())[:1], tail]

    def growing(self) -> tuple[Growing, ...]:
        """The graphs that grew between two looks."""
        found = []
        for line, looks in self._tails.items():
            first, last = looks[0], looks[-1]
            steps = last.step - first.step
            older = last.since - first.since
            if older <= 0 or last.old - first.old < LEAST_NODES_A_STEP * older:
                continue
            nodes_a_step = (last.old - first.old) / older
            bytes_a_step = max(last.heap - first.heap, 0) / steps
            # A tensor that is changed in place makes no block, and only blocks have a line for certain.
            in_place = first.birth == last.birth
            size = round(last.nodes / nodes_a_step * bytes_a_step)
            found.append(
                Growing(
                    site=Site(-1, "host", place_of(line) if line and not in_place else Place()),
                    first_step=max(1, round(last.step - last.nodes / nodes_a_step) + 1),
                    last_step=last.step,
                    birth_steps=last.step,
                    blocks=last.nodes,
                    bytes=size,
                    blocks_per_step=nodes_a_step,
                    bytes_per_step=bytes_a_step,
                    held=_through_graph(last, size),
                )
            )
        return tuple(found)


def _through_graph(tail: _Tail, size: int) -> Held:
    """The way to the tensor, and on to the nodes behind it."""
    node = Link(edge="grad_fn", type=f"{tail.name}, {tail.nodes} nodes")
    links = (*tail.held.links, node)
    return replace(tail.held, links=links, retained_bytes=size, category="autograd_detail")
