"""Call sites as the report shows them: the user's line that caused a block, from what the ledger keeps of its group."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakguard import source_text
from leakguard._native import core
from leakguard.notebook_cells import cell_or_file
from leakguard.report import Place
from leakguard.wording import at_line

__all__ = ["Site", "line_text", "place_of", "site_of"]

USER_LINE_IN_BACKWARD = 8  # block_flag::kUserLineInBackward
PRIVATE_POOL = 16  # block_flag::kPrivatePool


@dataclass(frozen=True, slots=True)
class Site:
    """A group of blocks born at one place: where, and on which device."""

    group: int
    device: str
    place: Place
    private_pool: bool = False  # of a captured graph or a user's MemPool: kept by design


def site_of(group: int) -> Site:
    """The call site of a group of the ledger.

    A block born in backward is given the line that made its autograd node, unless a hook or a custom Function of the
    user's ran there itself.
    """
    device, phase, line, via, forward_line, module, node, flags = core.group(group)
    caused_by = line
    if phase == "backward" and forward_line and not flags & USER_LINE_IN_BACKWARD:
        caused_by = forward_line
    place = replace(
        place_of(caused_by, phase),
        op=node or None,
        module=module or None,
        via=_via(via) if caused_by == line else None,
    )
    return Site(group, device, place, private_pool=bool(flags & PRIVATE_POOL))


def place_of(line: int, phase: str = "other") -> Place:
    """The place of a line of the table."""
    code = source_text.CodePlace(*core.line(line))
    return Place(
        file=cell_or_file(source_text.full_path(code.file)) or None,
        line=code.line or None,
        function=code.function or None,
        expression=source_text.expression(code),
        phase=phase,
    )


def line_text(line: int) -> str:
    """`train.py:41`, or a phrase for the unknown line."""
    code = source_text.CodePlace(*core.line(line))
    return (
        at_line(cell_or_file(source_text.full_path(code.file)), code.line) if code.line else "an unknown line"
    )


def _via(line: int) -> str | None:
    if not line:
        return None
    code = source_text.CodePlace(*core.line(line))
    return f"{source_text.full_path(code.file)}:{code.line} in {code.function}"
