"""Sentences of a finding: what grows, how fast, who keeps it. Figures come in, text goes out."""

from __future__ import annotations

from pathlib import Path

from leakguard.report import Link, Place, Steps
from leakguard.units import format_bytes

__all__ = ["at_line", "holder_phrase", "pace", "pieces", "plural", "where"]


def at_line(file: str, line: int) -> str:
    """`train.py:41`, and of a notebook's cell `In [5], line 3`."""
    return f"{file}, line {line}" if file.startswith("In [") else f"{file}:{line}"


def pace(first: int, last: int, birth_steps: int, steps: Steps, unit: str = "step") -> str:
    """How evenly: in each step, or in every so many."""
    span = last - first + 1
    if birth_steps >= span:
        return f"steadily since {unit} {first} ({span} of {plural(steps.count, unit)})"
    if birth_steps * 1.5 > span:
        return f"in most {unit}s since {unit} {first} ({birth_steps} of {plural(steps.count, unit)})"
    return f"about every {span / birth_steps:.0f} {unit}s since {unit} {first} ({birth_steps} times)"


def where(place: Place) -> str:
    """The expression and its line, short."""
    if place.file is None or place.line is None:
        return "a line that could not be told"
    generated = place.file.startswith("<")
    at = f"{place.file} line {place.line}" if generated else at_line(Path(place.file).name, place.line)
    return f"{place.expression} ({at})" if place.expression else at


def pieces(blocks_per_step: float, unit: str = "step") -> str:
    """How many blocks a step, or a run of whatever else is repeated."""
    if blocks_per_step >= 1.5:
        return f"{blocks_per_step:.0f} blocks a {unit}"
    if blocks_per_step > 2 / 3:
        return f"a block a {unit}"
    return f"a block every {1 / blocks_per_step:.0f} {unit}s" if blocks_per_step > 0 else "blocks"


def holder_phrase(root: str, links: tuple[Link, ...], holder: int) -> str:
    """The holder as one would say it: `module global train.history (list, 38 items)`."""
    if not links:
        return root
    link = links[min(holder, len(links) - 1)]
    kind = f" ({link.type})" if link.type else ""
    if holder <= 0:
        return f"{root}{kind}"
    name = f" {link.name}" if link.name else ""
    return f"{link.edge}{name}{kind}, reached from {root},"


def plural(count: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size(amount: float) -> str:
    """Bytes in IEC units."""
    return format_bytes(amount)
