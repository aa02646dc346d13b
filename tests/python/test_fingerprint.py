from __future__ import annotations

import os
import subprocess
import sys

import pytest

from leakguard.fingerprint import fingerprint
from leakguard.report import Link

HISTORY = [
    Link(edge="module global", name="history", type="list, 38 items", file="/home/user/train.py", line=12),
    Link(edge="item", type="Tensor [64, 10]"),
    Link(edge="grad_fn", type="AddmmBackward0"),
    Link(edge="saved tensor", name="mat1", type="Tensor [64, 6144]"),
]
CAUSE = ("module global", HISTORY, "Net.forward", "F.relu(self.fc1(x))")


def test_it_is_the_same_on_every_machine() -> None:
    assert fingerprint(*CAUSE) == "665bc104"


def test_it_does_not_depend_on_the_process() -> None:
    imports = "from leakguard.fingerprint import fingerprint; from leakguard.report import Link"
    code = f"{imports}; print(fingerprint(*{CAUSE!r}))"
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fingerprint(*CAUSE)


def test_lines_sizes_and_folders_do_not_count() -> None:
    moved = [Link(edge=one.edge, name=one.name, type="other", file="/mnt/x.py", line=99) for one in HISTORY]
    assert fingerprint("module global", moved, *CAUSE[2:]) == fingerprint(*CAUSE)


@pytest.mark.parametrize(
    "expression",
    [
        "F.relu( self.fc1( x ) )",
        "F.relu(\n    self.fc1(x),\n)",
        "F.relu(self.fc1(\tx))",
        " F . relu(self.fc1(x)) ",
    ],
)
def test_formatting_does_not_count(expression: str) -> None:
    assert fingerprint(*CAUSE[:3], expression) == fingerprint(*CAUSE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a if b else c", "aifbelsec"),
        ("x @ y", "x + y"),
        ("not x", "notx"),
    ],
)
def test_different_expressions_differ(one: str, other: str) -> None:
    assert fingerprint(*CAUSE[:3], one) != fingerprint(*CAUSE[:3], other)


@pytest.mark.parametrize("other", ["7", "'run-31'", "0x7f00", "<Key at 0x7f3a>"])
def test_keys_that_tell_entries_apart_do_not_count(other: str) -> None:
    assert fingerprint("local", [Link(edge="item", name=other)], "f", "x") == fingerprint(
        "local", [Link(edge="item", name=None)], "f", "x"
    )


def test_indices_inside_names_do_not_count() -> None:
    def of(name: str) -> str:
        return fingerprint("local", [Link(edge="attribute", name=name)], "f", "x")

    assert of("cache[3]") == of("cache[17]")
    assert of("cache") != of("layers")


def test_a_key_that_is_a_word_counts() -> None:
    loss, accuracy = Link(edge="item", name="'loss'"), Link(edge="item", name="'accuracy'")
    assert fingerprint("local", [loss], "f", "x") != fingerprint("local", [accuracy], "f", "x")


def test_the_length_of_a_graph_or_linked_list_does_not_count() -> None:
    def grown(length: int) -> str:
        step = [
            Link(edge="attribute", name="next"),
            Link(edge="attribute", name="value"),
            Link(edge="grad_fn"),
        ]
        return fingerprint("local", [Link(edge="local", name="head"), *step * length, HISTORY[-1]], "f", "x")

    assert grown(1) == grown(2) == grown(38)


def test_each_part_counts() -> None:
    base = fingerprint(*CAUSE)
    others = [
        fingerprint("local", *CAUSE[1:]),
        fingerprint(CAUSE[0], HISTORY[:-1], *CAUSE[2:]),
        fingerprint(*CAUSE[:2], "Net.backward", CAUSE[3]),
        fingerprint(*CAUSE[:3], "self.fc1(x)"),
        fingerprint(CAUSE[0], [], None, None),
    ]
    assert len({base, *others}) == 6


def test_a_name_that_is_no_valid_text_has_one_too() -> None:
    assert len(fingerprint("local", [Link(edge="local", name="\udc80")], None, "\udcff")) == 8
