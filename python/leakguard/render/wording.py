"""Words of a report made fit for any reader: unseen characters shown, folders shortened, long text cut."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import PurePath

from leakguard.report import Finding
from leakguard.wording import at_line

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LIBRARIES = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]")
_MAIN = re.compile(r"\b__main__(?=\.)")


def visible(text: str) -> str:
    """The text on one line, with control, direction and other unseen characters as escapes: a name can
    neither move the cursor, nor colour the terminal, nor turn the line around."""
    if text.isprintable():
        return text
    return "".join(_escape(char) if unicodedata.category(char) in _UNSEEN else char for char in text)


def shorten(text: str, length: int = 200) -> str:
    """The text, cut in its middle when it is longer than `length`."""
    if len(text) <= length:
        return text
    head = length * 2 // 3
    return f"{text[:head]}...{text[head + 3 - length :]}"


def words(text: str) -> str:
    """A sentence or a name, visible and of bearable length."""
    return shorten(visible(text), 400)


def short_path(path: str, folder: str | None) -> str:
    """The path as seen from `folder` when it lies in it, or from its site-packages when it is a library's."""
    if folder is not None and os.path.isabs(path):
        inside = os.path.relpath(path, folder)
        if inside.split(os.sep)[0] != os.pardir:
            path = inside
    return visible(_LIBRARIES.sub("", path))


class Names:
    """The names of one finding as its author knows them: paths seen from `folder`, and the script that ran as
    `__main__` under its own name."""

    def __init__(self, finding: Finding, folder: str | None) -> None:
        self._folder = folder
        root_file = finding.retained_by[0].file if finding.retained_by else None
        file = PurePath(root_file or finding.allocated_at.file or "")
        self._script = file.stem if file.suffix == ".py" else None

    def own(self, text: str) -> str:
        """`__main__.history` as `train.history`."""
        script = self._script
        return words(text if script is None else _MAIN.sub(lambda _: script, text))

    def path(self, path: str) -> str:
        """A path, or a text that begins with one."""
        return short_path(path, self._folder)

    def place(self, file: str | None, line: int | None, function: str | None = None) -> str:
        """`train.py:41 in main`, or as much of it as is known."""
        where = self.path(file) if file else "an unknown line"
        if file and line is not None:
            where = at_line(where, line)
        return f"{where} in {words(function)}" if function else where


def _escape(char: str) -> str:
    code = ord(char)
    escape = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return _ESCAPES.get(char, escape)
