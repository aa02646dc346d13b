"""Call stacks as torch records them: whose line made a block, when nothing is known but file names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from leakguard.report import Place

__all__ = ["place_of_frames"]

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_TORCH = re.compile(
    r"(?:[/\\](?:site|dist)-packages[/\\](?:torch|torchgen|functorch|triton)|[/\\]torchinductor_[^/\\]*)[/\\]"
)
_STANDARD = re.compile(r"[/\\]lib(?:64)?[/\\]python3\.\d+[/\\](?!(?:site|dist)-packages[/\\])|^<frozen ")
_OPTIMIZER = re.compile(r"[/\\]torch[/\\]optim[/\\]")
_MODULE_CALL = re.compile(r"[/\\]torch[/\\]nn[/\\]modules[/\\]module\.py$")
_NODE = re.compile(r"torch::autograd::(?:generated::)?(\w+)::apply\(")

_WRITTEN = re.compile(
    r'\s*File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>.*)(?:\n\s*(?P<source>.+))?'
)

Frame = tuple[str, int, str]


def place_of_frames(frames: Iterable[Mapping[str, Any]], forward: Iterable[Any] = ()) -> Place:
    """The innermost line of the user's own code, or the innermost Python line where there is none. `frames` go from
    the inside out. `forward`, from the outside in and as a traceback prints them, are those of the forward call
    behind a block of the backward pass, which torch knows in anomaly mode.

    C++ frames tell the phase and the autograd node, and no place. The place of a block without stack is empty.
    """
    python, native = _sorted(frames)
    behind = {frame: source for frame, source in map(_written, forward) if frame is not None}
    in_backward = bool(behind) or any("autograd::Engine" in name for _, _, name in native)
    if behind and not any(map(_is_user, python)):
        python = [*reversed(behind)]
    user = next(filter(_is_user, python), None)
    outer = next((frame for frame in python if not _is_machinery(frame)), None)
    found = user or outer or next(iter(python), None)
    phase = "backward" if in_backward else _phase(python)
    if found is None:
        return Place(op=_node(native), phase=phase)
    file, line, function = found
    return Place(
        file=file,
        line=line or None,
        function=function or None,
        expression=behind.get(found),
        op=_node(native),
        phase=phase,
        via=f"{outer[0]}:{outer[1]} in {outer[2]}" if user and outer and outer != user else None,
    )


def _written(text: Any) -> tuple[Frame | None, str | None]:
    """A frame and its source line, out of a line of a printed traceback."""
    found = _WRITTEN.match(text) if isinstance(text, str) else None
    if found is None:
        return None, None
    source = found["source"]
    return (found["file"], int(found["line"]), found["function"].strip()), source and source.strip()


def _sorted(frames: Iterable[Mapping[str, Any]]) -> tuple[list[Frame], list[Frame]]:
    """Python frames and those of compiled code. Raises KeyError, TypeError or ValueError for what is no frame."""
    python: list[Frame] = []
    native: list[Frame] = []
    for frame in frames:
        file, line, name = str(frame["filename"]), max(int(frame["line"]), 0), str(frame["name"])
        is_python = file.endswith((".py", ".pyx", ".pyc")) or file.startswith("<")
        (python if is_python else native).append((file, line, name))
    return python, native


def _is_user(frame: Frame) -> bool:
    return not _INSTALLED.search(frame[0]) and not _is_machinery(frame)


def _is_machinery(frame: Frame) -> bool:
    return bool(_TORCH.search(frame[0]) or _STANDARD.search(frame[0]))


def _node(native: Iterable[Frame]) -> str | None:
    """The innermost autograd node that was running."""
    return next((found[1] for _, _, name in native if (found := _NODE.search(name))), None)


def _phase(frames: Iterable[Frame]) -> str:
    for file, _, function in frames:
        if _OPTIMIZER.search(file):
            return "optimizer"
        if function.endswith("_call_impl") and _MODULE_CALL.search(file):
            return "forward"
    return "other"
