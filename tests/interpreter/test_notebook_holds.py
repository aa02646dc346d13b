"""Objects held by the output history of an interactive session."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from heap_world import Suspect, ask, chain, links

OUT = ("notebook output", "Out", "dict")


class Shell:
    """As much of IPython's shell as a walk looks at."""

    def __init__(self) -> None:
        self.user_ns_hidden: dict[str, object] = {}

    def get_ipython(self) -> Shell:
        return self


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A session in __main__ in which nothing has been run."""
    shell = Shell()
    names = sys.modules["__main__"].__dict__
    outputs: dict[int, object] = {}
    for name, value in {"_oh": outputs, "Out": outputs, "get_ipython": shell.get_ipython}.items():
        monkeypatch.setitem(names, name, value)
    before = set(names)
    yield shell
    for name in set(names) - before:
        del names[name]


def show(shell: Shell, number: int, result: object) -> int:
    """The result of a cell, as IPython keeps it."""
    names = sys.modules["__main__"].__dict__
    names["_oh"][number] = result
    for name in (f"_{number}", "_"):
        names[name] = shell.user_ns_hidden[name] = result
    return id(result)


def test_result_is_in_out_whatever_else_it_is_called(session: Shell) -> None:
    first, second = (show(session, number, Suspect()) for number in (5, 7))
    assert chain(first) == [OUT, ("item", None, "Suspect")]
    assert chain(second) == [OUT, ("item", None, "Suspect")]
    answer = ask(second)
    assert answer["root"] == "notebook output Out"
    assert answer["root_parts"]["kind"] == "notebook output"
    assert answer["container"] == {"type": "dict", "length": 2, "limit": None}


def test_it_is_the_only_holder(session: Shell) -> None:
    answer = ask(show(session, 5, Suspect()), most_owners=4)
    assert links(answer) == [OUT, ("item", None, "Suspect")]
    assert answer["other_owners"] == []


def test_a_variable_says_more_than_a_result(session: Shell) -> None:
    mine = Suspect()
    address = show(session, 5, mine)
    sys.modules["__main__"].__dict__["mine"] = mine
    del mine
    assert chain(address) == [("module global", "mine", "Suspect")]


def test_last_result_when_out_has_been_cleared(session: Shell) -> None:
    address = show(session, 5, Suspect())
    names = sys.modules["__main__"].__dict__
    names["_oh"].clear()
    names["_"] = ""
    del names["_5"], session.user_ns_hidden["_5"], names
    assert chain(address) == [OUT, ("item", None, "Suspect")]


def test_an_underscore_of_the_programs_own(session: Shell) -> None:
    names = sys.modules["__main__"].__dict__
    own = Suspect()
    address = id(own)
    names["_"] = own
    del own, names
    assert chain(address) == [("module global", "_", "Suspect")]


def test_without_a_session_out_is_a_name_like_any_other() -> None:
    names = sys.modules["__main__"].__dict__
    own = Suspect()
    address = id(own)
    names["Out"] = {5: own}
    del own, names
    found = chain(address)
    del sys.modules["__main__"].__dict__["Out"]
    assert found == [("module global", "Out", "dict"), ("item", None, "Suspect")]
