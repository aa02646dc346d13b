"""What keeps the blocks of one call site alive, as values: nothing in here refers to a live object."""

from __future__ import annotations

from dataclasses import dataclass

from leakguard.report import Example, Link

__all__ = ["Container", "Held"]

GRAPH_EDGES = ("grad_fn", "saved tensor", "packed tensor", "next function")


@dataclass(frozen=True, slots=True)
class Container:
    """A container that grows, as it declares itself. `limit` is None for one without a bound."""

    type: str
    length: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Held:
    """What keeps the blocks of one call site alive, seen at one step.

    `status` is rooted, native, garbage, own or not-found. `links` lead from the root to the tensor; `holder` is the
    index of the link that would have to let go. `others` are roots that keep the same blocks too.
    """

    status: str
    root: str
    root_kind: str
    root_name: str | None
    links: tuple[Link, ...]
    holder: int
    container: Container | None
    retained_bytes: int
    others: tuple[str, ...]
    collectable: bool | None
    example: Example | None
    seen_at: int
    category: str = "unknown"
    owner_resets: bool = False  # the holder is an attribute of an object with methods update and reset
    block_bytes: int = 0  # of the block that was looked at; 0 where none was

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for call sites whose blocks one holder keeps."""
        way = tuple((link.edge, link.name) for link in self.links[: self.holder + 1])
        return self.status, self.root, way if self.status == "rooted" else self.links

    @property
    def keeps_graph(self) -> bool:
        """Whether the way from the holder to the tensor leads through an autograd graph."""
        return any(link.edge in GRAPH_EDGES for link in self.links[self.holder + 1 :])
