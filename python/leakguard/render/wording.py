"""Words of a report made fit for any reader: hostile characters shown, folders shortened, long text cut."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import PurePath

from leakguard.report import Finding

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_LIBRARIES = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]")
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """The text on one line, with control, direction and other unseen characters as escapes: a name can
    neither move the cursor, nor colour the terminal, nor turn the line around."""
    if text.isprintable():
        return text
    return "".join(_escape(char) if unicodedata.category(char) in _HIDDEN else char for char in text)


def shorten(text: str, length: int = 200) -> str:
    """The text, cut in the middle when it is longer than `length`."""
    if len(text) <= length:
        return text
    head = (length - 3) * 2 // 3
    return f"{text[:head]}...{text[len(text) - (length - 3 - head) :]}"


def short_path(path: str, folder: str | None = None) -> str:
    """The path as seen from `folder` when it lies in it; from its site-packages when it is a library's."""
    if folder is not None and os.path.isabs(path):
        inside = os.path.relpath(path, folder)
        if not inside.startswith(os.pardir):
            return inside
    return _LIBRARIES.sub("", path)


def script_name(finding: Finding) -> str | None:
    """What `__main__` is called by its author: the stem of the file that holds the root, or makes the
    block."""
    first = finding.retained_by[0].file if finding.retained_by else None
    file = first or finding.allocated_at.file
    return PurePath(file).stem if file and file.endswith(".py") else None


def own_name(text: str, script: str | None) -> str:
    """`__main__.history` under the name of its script."""
    return re.sub(r"\b__main__(?=\.)", script.replace("\\", ""), text) if script else text


def _escape(char: str) -> str:
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
