"""The walls between the rooms of csrc: which room may include which, and which foreign headers it knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"

# What a room may include besides itself.
BELOW = {
    "core": set(),
    "interpreter": {"core"},
    "torch": {"core"},
    "program": {"core", "torch"},
    "cuda": {"core", "torch"},
    "owners": {"core", "interpreter", "torch"},
    "bindings": {"core", "interpreter", "torch", "cuda", "owners"},
}
PYTHON = re.compile(r"^(Python\.h|pybind11/|internal/pycore)|python", re.IGNORECASE)
TORCH = re.compile(r"^(ATen|c10|torch)/")
FOREIGN = {
    "core": [PYTHON, TORCH],
    "interpreter": [TORCH],
    "torch": [PYTHON],
    "cuda": [PYTHON],
    "program": [PYTHON, TORCH],
}
ROOMS = sorted(BELOW)


def includes(room: str) -> list[tuple[str, str, str]]:
    """(file, bracket, name) of every #include in a room."""
    found = []
    for file in sorted((CSRC / room).glob("*.*")):
        if file.suffix in {".h", ".c", ".cpp"}:
            found += [
                (file.name, *match)
                for match in re.findall(r'^\s*#\s*include\s+([<"])([^>"]+)', file.read_text(), re.MULTILINE)
            ]
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_includes_only_what_stands_before_it(room):
    own = [
        (file, name.split("/")[0]) for file, bracket, name in includes(room) if bracket == '"' and "/" in name
    ]
    assert [
        (file, other) for file, other in own if other in BELOW and other not in BELOW[room] | {room}
    ] == []


@pytest.mark.parametrize("room", sorted(FOREIGN))
def test_a_room_knows_no_foreign_header(room):
    foreign = [(file, name) for file, bracket, name in includes(room) if bracket == "<"]
    assert [(file, name) for file, name in foreign if any(wall.search(name) for wall in FOREIGN[room])] == []


def test_every_room_is_known():
    assert {path.name for path in CSRC.iterdir() if path.is_dir()} <= set(ROOMS)


def test_files_stay_small():
    long = {
        str(file.relative_to(CSRC)): lines
        for file in CSRC.rglob("*.*")
        if file.suffix in {".h", ".c", ".cpp"} and (lines := len(file.read_text().splitlines())) > 400
    }
    assert long == {}
