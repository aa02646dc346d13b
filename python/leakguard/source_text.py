"""The text of an expression, from the position that the interpreter keeps for each instruction (PEP 657)."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass

__all__ = ["CodePlace", "expression", "full_path"]

LONGEST = 160

_START_FOLDER = os.getcwd() if os.path.isdir(os.curdir) else "/"


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A place in a program's text. Columns are UTF-8 byte offsets, -1 where unknown; line 0 is unknown."""

    file: str
    function: str
    line: int
    end_line: int
    column: int
    end_column: int


def full_path(file: str) -> str:
    """The file with its folder: a script's own code names it as it was typed, relative to where the run began."""
    if not file or file.startswith("<"):
        return file
    return os.path.normpath(os.path.join(_START_FOLDER, file))


def expression(place: CodePlace) -> str | None:
    """The source text at the place on one line, or the whole line where columns are unknown; None without source."""
    lines = linecache.getlines(full_path(place.file)) or linecache.getlines(place.file)
    if not 0 < place.line <= place.end_line <= len(lines):
        return None
    wanted = [line.rstrip("\n").encode() for line in lines[place.line - 1 : place.end_line]]
    if place.column >= 0 and place.end_column >= 0:
        wanted[-1] = wanted[-1][: place.end_column]
        wanted[0] = wanted[0][place.column :]
    text = " ".join(" ".join(part.decode(errors="replace").split()) for part in wanted).strip()
    if not text:
        return None
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
