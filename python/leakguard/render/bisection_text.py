"""The table of a bisect, a row at a time or whole, and its verdict below."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence

from rich.text import Text

from leakguard.bisection import Bisection, Trial
from leakguard.render.page import Page
from leakguard.render.text import fit_for, glyphs_for
from leakguard.render.wording import shorten, visible, words
from leakguard.units import format_bytes
from leakguard.wording import plural

__all__ = ["COLUMNS", "headline", "names", "row", "to_text", "verdict"]

COLUMNS = f"{'trial':>5}  {'result':<10} {'grows a step':>13}  off"
NAMES = 60
"""Columns for the names of the parts that are off."""

DIM = "dim"
STYLES = {"FOUND": "bold red", "OUTSIDE": "bold red", "CLEAN": "bold green"}
HEADS = {
    "found": "FOUND",
    "outside": "OUTSIDE",
    "no-leak": "CLEAN",
    "no-components": "LEAK",
    "undecided": "UNDECIDED",
}


def row(number: int, trial: Trial, components: Sequence[str]) -> str:
    """One trial in a line."""
    grows = format_bytes(trial.bytes_per_step) if trial.outcome == "leak" else "-"
    return f"{number:>5}  {trial.outcome:<10} {grows:>13}  {names(trial.off, components)}"


def names(off: Collection[str], components: Sequence[str]) -> str:
    """The parts that are off, in few words: `none`, `a, b`, `all but c`."""
    rest = [name for name in components if name not in off]
    if not off or not components:
        return "none" if not off else shorten(visible(", ".join(off)), NAMES)
    if not rest:
        return f"all {len(components)}" if len(components) > 1 else visible(components[0])
    if len(rest) < len(off):
        return shorten(visible(f"all but {', '.join(rest)}"), NAMES)
    return shorten(visible(", ".join(name for name in components if name in off)), NAMES)


def to_text(result: Bisection, *, width: int | None = None, encoding: str | None = None) -> str:
    """The whole result as plain text."""
    page = Page(width or shutil.get_terminal_size((80, 24)).columns, glyphs_for(encoding))
    page.labelled(Text(), Text(headline(result.subject, result.method)), 0)
    lines = [
        COLUMNS,
        *(row(number, trial, result.components) for number, trial in enumerate(result.trials, 1)),
    ]
    page.lines += [Text(line) for line in lines]
    page.blank()
    page.lines += verdict(result, page.width)
    return fit_for(encoding, Text("\n").join(page.lines).plain)


def headline(subject: str, method: str) -> str:
    """What is bisected, and how."""
    return f"bisect of {words(subject)}, {'by halves' if method == 'halves' else 'one part at a time'}"


def verdict(result: Bisection, width: int) -> list[Text]:
    """What was found, why, what to do next; and what the reader must know to believe it."""
    page = Page(width, glyphs_for(None))
    head = HEADS[result.status]
    indent = max(len(head), len("next")) + 2
    page.labelled(Text(head, STYLES.get(head, "bold")), Text(_found(result), "bold"), indent)
    for label, text in (*_reasons(result), *(("note", note) for note in _notes(result))):
        if text:
            page.labelled(Text(label, DIM), Text(words(text)), indent)
    return page.lines


def _found(result: Bisection) -> str:
    first = result.trials[0]
    if result.status == "no-leak":
        return f"with every part on there is no leak in {plural(first.steps, 'step')}"
    if result.status == "no-components":
        return "it leaks, and it asks for no part that could be off"
    if result.status == "outside":
        return (
            f"it leaks with all {plural(len(result.components), 'part')} off: the culprit is outside of them"
        )
    if result.culprits:
        text = "; ".join(_culprit(result, parts) for parts in result.culprits)
        if result.suspects:
            text += f"; what else leaks could not be told apart: {_listed(result.suspects)}"
        return text
    if result.suspects:
        return f"narrowed down to {_listed(result.suspects)}, and no further"
    return "the trial with every part on decided nothing"


def _culprit(result: Bisection, parts: Sequence[str]) -> str:
    trial = result.alone(parts)
    rate = f", {format_bytes(trial.bytes_per_step)} a step" if trial is not None else ""
    if len(parts) == 1:
        name = words(parts[0])
        return f"the culprit is {name}{rate}" if len(result.culprits) == 1 else f"{name} leaks{rate}"
    return f"{_listed(parts)} leak together{rate}, and none of them without the other{'s' * (len(parts) > 2)}"


def _reasons(result: Bisection) -> Iterator[tuple[str, str]]:
    """The report of the trial that shows the culprit best; or of the one that stood in the way."""
    if result.status in ("found", "outside", "no-components"):
        parts: Sequence[str] = result.culprits[0] if result.culprits else ()
        trial = result.trials[0] if result.status == "no-components" else result.alone(parts)
        trial = trial or result.trials[0]
    elif result.status == "no-leak":
        trial = result.trials[0]
    else:
        trial = next((one for one in result.trials if one.outcome == "undecided"), result.trials[-1])
        yield "why", f"trial {result.trials.index(trial) + 1}: {trial.why}"
        yield "next", trial.next
        return
    yield "why", trial.why
    yield "next", NO_PARTS if result.status == "no-components" else trial.next


NO_PARTS = 'guard parts of the program with `if leakguard.component("name"):` and bisect it again'


def _notes(result: Bisection) -> Iterator[str]:
    if not result.fresh:
        yield "all trials ran in this process: what one left behind, the next one found"
    asked = {name for trial in result.trials for name in trial.asked}
    late = sorted(asked - set(result.components))
    if late and result.components:
        yield f"asked for only when others were off, and left on in every trial: {_listed(late)}"
    never = [name for name in result.components if name not in asked]
    if asked and never:
        yield f"never asked for: {_listed(never)}"
    undecided = sum(trial.outcome == "undecided" for trial in result.trials)
    if undecided and result.status == "found":
        yield f"{plural(undecided, 'trial')} decided nothing, and counted for nothing"


def _listed(parts: Sequence[str]) -> str:
    shown = [words(name) for name in parts]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
