"""One finding as text: where it is born, what holds it, what letting go would free.

born at    train.py:41 in Net.forward   F.relu(self.fc1(x))   module encoder.fc1
held by    ┬ module global train.history   list, 38 items (+1 a step)
           ├ item [x]                      Tensor [64, 10], requires grad
           ╰ saved tensor mat1             Tensor [64, 6144] float32   ~~~ 1.50 MiB x 38
frees      57.0 MiB if train.history lets go   fingerprint 9f31c0a2
"""

from __future__ import annotations

from itertools import groupby

from rich.text import Text

from leakguard.render.paper import Paper, Row
from leakguard.render.wording import Names, shorten, visible, words
from leakguard.report import Example, Finding, Link
from leakguard.units import format_bytes

DIM = "dim"
INDENT = 11
FIRST_SHOWN, LAST_SHOWN = 8, 3
OTHERS_SHOWN = 3


class LeakTrace:
    """Writes one finding on paper."""

    def __init__(self, page: Paper, finding: Finding, folder: str | None) -> None:
        self._page = page
        self._finding = finding
        self._names = Names(finding, folder)
        self._root = self._names.own(finding.root)
        self._chain = finding.retained_by

    def write(self) -> None:
        """The birth; the way from the root to the tensor, when it is known; and what it is worth."""
        if self._finding.allocated_at.file is not None or self._finding.fingerprint:
            self._page.flow(Text("born at", DIM), self._birth(), INDENT)
        self._also_born()
        if self._chain:
            self._page.tree(Text("held by", DIM), self._rows(), INDENT)
            self._page.flow(Text("frees", DIM), [*self._freed(), *self._known_as()], INDENT)
        else:
            self._page.flow(Text("alive", DIM), [*self._alive(), *self._known_as()], INDENT)

    def _birth(self) -> list[Text]:
        place = self._finding.allocated_at
        parts = [Text(self._names.place(place.file, place.line, place.function), "bold")]
        if place.expression:
            parts.append(Text(shorten(visible(place.expression)), "cyan"))
        if place.module:
            parts.append(Text(f"module {words(place.module)}"))
        if place.op:
            parts.append(Text(words(place.op)))
        category = "" if self._finding.category == "unknown" else self._finding.category.replace("_", " ")
        phase = "" if place.phase == "other" else f"in {place.phase}"
        if category or phase:
            parts.append(Text(visible(f"{category} {phase}".strip())))
        if place.via:
            parts.append(Text(f"via {self._names.path(place.via)}", DIM))
        return parts

    def _also_born(self) -> None:
        others = self._finding.also_born_at
        for number, place in enumerate(others[:OTHERS_SHOWN]):
            parts = [Text(self._names.place(place.file, place.line, place.function))]
            if place.expression:
                parts.append(Text(shorten(visible(place.expression)), "cyan"))
            self._page.flow(Text("" if number else "and at", DIM), parts, INDENT)
        if len(others) > OTHERS_SHOWN:
            more = Text(f"... {len(others) - OTHERS_SHOWN} more lines", DIM)
            self._page.labelled(Text(), more, INDENT)

    def _rows(self) -> list[Row]:
        rows = [self._row(link, times) for link, times in _without_repeats(self._chain)]
        hidden = len(rows) - FIRST_SHOWN - LAST_SHOWN
        if hidden > 1:
            rows[FIRST_SHOWN:-LAST_SHOWN] = [Row(Text(f"... {hidden} more references", DIM))]
        if self._root and self._root_name() is None:
            rows.insert(0, Row(Text(self._root, "bold")))
        mark = Text(f"~~~ {self._amount()}", "bold red")
        rows[-1] = Row(rows[-1].left, [*rows[-1].right, mark])
        return rows

    def _row(self, link: Link, times: int) -> Row:
        name = self._names.own(link.name) if link.name is not None else "[x]" if link.edge == "item" else ""
        if link is self._chain[0]:
            name = self._root_name() or name
        left = Text(words(link.edge))
        if name:
            left.append(f" {name}", "bold")
        right = [Text(self._names.own(link.type))] if link.type else []
        if times > 1:
            right.append(Text(f"{times} in a row", DIM))
        if link.file and link is not self._chain[0]:
            right.append(Text(self._names.place(link.file, link.line), DIM))
        return Row(left, right)

    def _freed(self) -> list[Text]:
        if self._finding.retained_bytes <= 0:
            return []
        return [Text.assemble((format_bytes(self._finding.retained_bytes), "bold"), f" {self._condition()}")]

    def _condition(self) -> str:
        if self._finding.verdict == "waiting-for-gc":
            return "when the garbage collector runs"
        if self._chain[0].edge == "native":
            return "if its C++ holder lets go"
        return f"if {self._root_name() or self._root or 'its holder'} lets go"

    def _alive(self) -> list[Text]:
        finding = self._finding
        parts = [Text(self._amount(), "bold red")]
        if finding.bytes_per_step > 0:
            since = f" since step {finding.first_step}" if finding.first_step is not None else ""
            parts.append(Text(f"+{format_bytes(finding.bytes_per_step)} a step{since}"))
        if finding.example is not None:
            parts.append(Text(f"such as {_tensor(finding.example)}"))
        return parts

    def _known_as(self) -> list[Text]:
        names = [f"fingerprint {self._finding.fingerprint}"] if self._finding.fingerprint else []
        if self._finding.cause != "unknown":
            names.append(f"cause {self._finding.cause}")
        return [Text(words(name), DIM) for name in names]

    def _amount(self) -> str:
        size, blocks = self._finding.bytes, self._finding.blocks
        return format_bytes(size) if blocks <= 1 else f"{format_bytes(size / blocks)} x {blocks}"

    def _root_name(self) -> str | None:
        """The root without its kind, when the first link is the root itself."""
        kind = f"{self._chain[0].edge} "
        return self._root.removeprefix(kind) if self._root.startswith(kind) else None


def _without_repeats(chain: tuple[Link, ...]) -> list[tuple[Link, int]]:
    """Each link, with how often it comes in a row: the nodes of a long graph, the members of a linked
    list."""
    alike = groupby(chain, key=lambda link: (link.edge, link.name, link.type))
    return [(group[0], len(group)) for group in (list(links) for _, links in alike)]


def _tensor(example: Example) -> str:
    shape = ", ".join(map(str, example.shape))
    return f"Tensor [{shape}] {words(example.dtype)}" + (", requires grad" if example.requires_grad else "")
