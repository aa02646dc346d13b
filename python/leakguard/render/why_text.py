"""Who keeps one tensor, and who keeps what, as text."""

from __future__ import annotations

import shutil

from rich.text import Text

from leakguard.ownership import Owners, Why
from leakguard.render.leak_trace import DIM, INDENT, LeakTrace
from leakguard.render.page import Glyphs, Page
from leakguard.render.text import working_folder
from leakguard.render.wording import shorten, visible
from leakguard.report import Finding, Place
from leakguard.units import format_bytes
from leakguard.wording import plural

ROWS_SHOWN = 30
ALSO_SHOWN = 4


def why_text(why: Why, *, width: int | None = None, folder: str | None = None) -> str:
    """The tensor, its birth, the references that lead to it, what they free."""
    page = _page(width)
    shape = ", ".join(map(str, why.example.shape))
    grad = ", requires grad" if why.example.requires_grad else ""
    page.labelled(
        Text("tensor", DIM),
        Text(f"[{shape}] {why.example.dtype}{grad} on {why.device}, {format_bytes(why.bytes)}", "bold"),
        INDENT,
    )
    finding = Finding(
        fingerprint="",
        verdict="growing" if why.held else "waiting-for-gc",
        title="",
        device=why.device,
        bytes=why.bytes,
        blocks=1,
        allocated_at=why.allocated_at or Place(),
        root=why.root,
        retained_by=why.retained_by,
        retained_bytes=why.retained_bytes,
        example=why.example,
    )
    LeakTrace(page, finding, folder or working_folder()).write()
    if why.step is not None:
        page.labelled(Text("since", DIM), Text(f"step {why.step}"), INDENT)
    for number, root in enumerate(why.also_held_by[:ALSO_SHOWN]):
        page.labelled(Text("" if number else "and by", DIM), Text(visible(root)), INDENT)
    if len(why.also_held_by) > ALSO_SHOWN:
        page.labelled(Text(), Text(f"... {len(why.also_held_by) - ALSO_SHOWN} more", DIM), INDENT)
    return _text(page)


def owners_text(owners: Owners, *, width: int | None = None) -> str:
    """One line a holder, most bytes first."""
    page = _page(width)
    if not owners.rows:
        page.labelled(Text(), Text("no live block was born under watch"), 0)
    for row in owners.rows[:ROWS_SHOWN]:
        label = f"{format_bytes(row.bytes):>9} {plural(row.blocks, 'block'):>11} {row.device:<7}"
        page.labelled(Text(label), Text(shorten(visible(row.holder))), len(label) + 1)
    hidden = owners.rows[ROWS_SHOWN:]
    if hidden:
        rest = sum(row.bytes for row in hidden)
        page.labelled(
            Text(), Text(f"{format_bytes(rest):>9} more, with {plural(len(hidden), 'holder')}", DIM), 0
        )
    if owners.left_out:
        page.labelled(Text(), Text(f"and {plural(owners.left_out, 'smaller block')} not looked up", DIM), 0)
    return _text(page)


def _page(width: int | None) -> Page:
    return Page(width or shutil.get_terminal_size((80, 24)).columns, Glyphs())


def _text(page: Page) -> str:
    return "\n".join(line.plain.rstrip() for line in page.lines)
