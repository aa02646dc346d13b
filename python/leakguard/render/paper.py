"""What a report is written on: lines of a terminal, or markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.text import Text

__all__ = ["Paper", "Row"]


@dataclass(frozen=True)
class Row:
    """One reference of a tree: what it is, and in parts what it leads to."""

    left: Text
    right: Sequence[Text] = ()


class Paper(Protocol):
    """Takes words with their labels; what they look like there is its own affair."""

    def blank(self) -> None:
        """Some room, unless there is some already."""

    def labelled(self, label: Text, text: Text, indent: int) -> None:
        """`text` beside `label`; without a label it goes on from what was said before."""

    def flow(self, label: Text, parts: Sequence[Text], indent: int) -> None:
        """The parts beside `label`, one after the other."""

    def tree(self, label: Text, rows: Sequence[Row], indent: int) -> None:
        """A way from its first row to its last, beside `label`."""

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns under their names: the first holds words, the others numbers."""
