"""Marks that say what a piece of work was made from, so that it is done again only after a change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def digest(parts: Iterable[Path | str]) -> str:
    """One hash over texts and files; the files of a folder count with their names, caches do not."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(part.encode())
            continue
        for file in [part] if part.is_file() else sorted(part.rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                total.update(f"\0{file.relative_to(ROOT)}\0".encode())
                total.update(file.read_bytes())
    return total.hexdigest()


class Stamp:
    """One such mark: a file that holds the hash of what was used."""

    def __init__(self, file: Path, parts: Iterable[Path | str]) -> None:
        self._file = file
        self._digest = digest(parts)

    def is_fresh(self) -> bool:
        """Whether the work was finished with exactly these parts."""
        return self._file.is_file() and self._file.read_text() == self._digest

    def set(self) -> None:
        """To be called when the work is finished."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(self._digest)
