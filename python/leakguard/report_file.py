"""Report files: read and written whole, with errors that say what to do."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOW_TO_MAKE = "Make one with: python -m leakguard run --json FILE SCRIPT"


class ReportError(ValueError):
    """A report cannot be read or written; the message says which one, why, and what to do next."""


def read(path: str | Path) -> Mapping[str, Any]:
    """The JSON object in the file. Raises ReportError when there is none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {_reason(error)}. {HOW_TO_MAKE}") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(
            f"{path} is not a leakguard report: it is not JSON ({error}). {HOW_TO_MAKE}"
        ) from error
    if not isinstance(data, dict):
        raise ReportError(f"{path} is not a leakguard report: it is not a JSON object. {HOW_TO_MAKE}")
    return data


def write(path: str | Path, data: Mapping[str, Any]) -> None:
    """Writes the object as JSON, whole or not at all. Raises ReportError when it cannot be written."""
    try:
        text = json.dumps(data, indent=1, allow_nan=False) + "\n"  # ASCII: file names need not be valid UTF-8
    except ValueError as error:
        raise ReportError(
            f"{path} cannot be written: the report holds a number that JSON lacks ({error})."
        ) from error
    write_text(path, text)


def write_text(path: str | Path, text: str) -> None:
    """Writes the text as UTF-8, as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, data: bytes) -> None:
    """Writes the file. A reader finds the old file or the new one, never half of it; a link stays a link.

    Where nothing can be put beside the file (a device, a pipe, a mounted file in a closed folder), it is
    written in place. Raises ReportError when that fails too.
    """
    target = _resolved(path)
    try:
        if not _replace(target, data):
            target.write_bytes(data)
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {_reason(error)}. {_remedy(target)}") from error


def report_path(pattern: str) -> Path:
    """The file that `pattern` names in this process: `report.json` is `report.rank1.json` on torchrun's rank
    1."""
    rank = os.environ.get("RANK")
    filled = pattern.replace("{rank}", rank or "0").replace("{pid}", str(os.getpid()))
    path = Path(filled).absolute()
    is_device = path.exists() and not path.is_file()
    if rank is not None and "{rank}" not in pattern and not is_device:
        path = path.with_name(f"{path.stem}.rank{rank}{path.suffix}")
    return path


def check_writable(path: str | Path) -> None:
    """Raises ReportError when a report could not be written to `path`. Leaves no file behind and harms
    none."""
    target = _resolved(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        if target.exists():
            if not os.access(target, os.W_OK):
                raise PermissionError(None, "permission denied")
        else:
            target.open("x").close()
            target.unlink()
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {_reason(error)}. {_remedy(target)}") from error


def _replace(target: Path, data: bytes) -> bool:
    """Puts a finished file in the place of `target`; False when there is no place beside it to finish one."""
    if target.exists() and not target.is_file():
        return False
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        file = beside.open("wb")
    except PermissionError:
        return False
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o777)
        beside.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    return True


def _resolved(path: str | Path) -> Path:
    """The file behind links; a pipe or device under the name it was given, such as /dev/stdout."""
    given = Path(path)
    return given if given.exists() and not given.is_file() else Path(os.path.realpath(path))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _remedy(target: Path) -> str:
    if not target.parent.exists():
        return f"Make its folder first: mkdir -p {target.parent}"
    return "Name a file in a folder that you may write to."
