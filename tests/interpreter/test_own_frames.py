"""The hot path's reader: this thread's own frames, without the GIL."""

from __future__ import annotations

import sys
from typing import Any

import _heap
import pytest


class Module:
    def forward(self, at_a_time: int) -> list[tuple[Any, int, int]]:
        return _heap.own_frames(at_a_time)


def innermost(at_a_time: int = 8) -> list[tuple[Any, int, int]]:
    return _heap.own_frames(at_a_time)


@pytest.mark.parametrize("at_a_time", [1, 2, 3, 64])
def test_same_frames_as_the_interpreter_names(at_a_time: int) -> None:
    expected = []
    frame = sys._getframe()
    while frame is not None:
        expected.append(frame.f_code)
        frame = frame.f_back  # type: ignore[assignment]
    found = [code for code, _, _ in innermost(at_a_time)]
    assert found[0] is innermost.__code__
    assert found[1:] == expected


def test_instruction_gives_the_line() -> None:
    code, lasti, _ = innermost()[0]
    lines = {line for start, end, line in code.co_lines() if start <= lasti < end}
    assert lines == {innermost.__code__.co_firstlineno + 1}


def test_first_slot_is_self() -> None:
    module = Module()
    _, _, slot = module.forward(4)[0]
    assert slot == id(module)


def test_frames_made_by_c_code_on_the_way_are_skipped() -> None:
    found: list[Any] = []
    sorted([2, 1], key=lambda value: found.append(innermost()) or value)  # type: ignore[func-returns-value]
    names = [code.co_name for code, _, _ in found[0]]
    assert names[:3] == ["innermost", "<lambda>", "test_frames_made_by_c_code_on_the_way_are_skipped"]
