"""What IPython shows of a value that has a text of its own, where it shows no HTML."""

from __future__ import annotations

from typing import Any

__all__ = ["as_printed"]


def as_printed(value: object, printer: Any, cycle: bool) -> None:
    """For `_repr_pretty_`: the value as `print` shows it. Each class names it itself: IPython prefers a dataclass's own
    `__repr__` to what the class inherits."""
    printer.text(str(value))
