"""Lines of a notebook as its reader knows them: the cell's number in place of the file that its code claims to be in.

Asks the running IPython, and never imports it: a process without one has no cells.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

from leakguard.report import Link
from leakguard.wording import at_line

__all__ = ["cell_or_file", "in_cells", "shell"]

NUMBER = re.compile(r"In\s*\[(\d+)\]")
NAMED_BY_NUMBER = re.compile(r"<ipython-input-(\d+)-")


def shell() -> Any | None:
    """The IPython of this process, None where there is none."""
    module = sys.modules.get("IPython.core.interactiveshell")
    if module is None or not module.InteractiveShell.initialized():
        return None
    return module.InteractiveShell.instance()


def cell_or_file(file: str) -> str:
    """`In [5]` for the file of that cell, as it was last run; any other file as it is."""
    running = shell()
    name = getattr(getattr(running, "compile", None), "format_code_name", lambda _: None)(file)
    number = NUMBER.search(name[1]) if name else NAMED_BY_NUMBER.match(file)
    return f"In [{number[1]}]" if number else file


def in_cells(root: str, file: str | None, line: int, links: tuple[Link, ...]) -> tuple[str, tuple[Link, ...]]:
    """A holder's root, which lies at a line, and the links from it."""
    if shell() is None:
        return root, links
    root = root.replace("module global __main__.", "module global ")
    if file:
        root = root.replace(
            f" at {file.rpartition('/')[2]}:{line}", f" at {at_line(cell_or_file(file), line)}"
        )
    return root, tuple(replace(link, file=cell_or_file(link.file)) if link.file else link for link in links)
