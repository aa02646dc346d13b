"""Objects held by exceptions, threads, modules and the interpreter itself."""

from __future__ import annotations

import atexit
import contextvars
import gc
import os
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest
from heap_world import Box, Suspect, ask, chain, in_another_thread, links

KEEP: dict[str, Any] = {}
VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("kept_variable")
LOCAL = threading.local()
FIRST = ("module global", "KEEP", "dict")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    KEEP.clear()


def boom(addresses: list[int]) -> None:
    inside = Suspect()
    addresses.append(id(inside))
    raise ValueError("x")


LINE_OF_INSIDE = boom.__code__.co_firstlineno + 1


def test_traceback_of_a_kept_exception() -> None:
    addresses: list[int] = []
    try:
        boom(addresses)
    except ValueError as error:
        KEEP["e"] = error
    answer = ask(addresses[0])
    assert links(answer) == [
        FIRST,
        ("item", "e", "ValueError"),
        ("traceback", None, "frame"),
        ("local", "inside", "Suspect"),
    ]
    assert answer["retained_by"][2]["detail"] == "boom"
    assert answer["retained_by"][3]["line"] == LINE_OF_INSIDE
    assert os.path.samefile(answer["retained_by"][3]["file"], __file__)


def test_context_of_a_kept_exception() -> None:
    addresses: list[int] = []
    try:
        try:
            boom(addresses)
        except ValueError:
            raise KeyError("y")
    except KeyError as error:
        KEEP["e"] = error.with_traceback(None)
    assert chain(addresses[0]) == [
        FIRST,
        ("item", "e", "KeyError"),
        ("attribute", "__context__", "ValueError"),
        ("traceback", None, "frame"),
        ("local", "inside", "Suspect"),
    ]


def test_exception_being_handled() -> None:
    addresses: list[int] = []
    try:
        boom(addresses)
    except ValueError:
        answer = ask(addresses[0])
    assert answer["root"] == "exception being handled"
    assert links(answer) == [
        ("exception", None, "ValueError"),
        ("traceback", None, "frame"),
        ("local", "inside", "Suspect"),
    ]


def test_last_exception_of_an_interactive_session(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses: list[int] = []
    try:
        boom(addresses)
    except ValueError as error:
        monkeypatch.setattr(sys, "last_value", error, raising=False)
    answer = ask(addresses[0])
    assert answer["root"] == "last exception sys.last_value"
    assert links(answer)[0] == ("last exception", "sys.last_value", "ValueError")


def test_context_variable() -> None:
    suspect = Suspect()
    address = id(suspect)
    VARIABLE.set([suspect])
    del suspect
    answer = ask(address)
    VARIABLE.set(None)
    assert links(answer) == [("context variable", "kept_variable", "list"), ("item", None, "Suspect")]
    assert answer["root"] == "context variable 'kept_variable'"


def test_thread_local() -> None:
    LOCAL.kept = Suspect()
    address = id(LOCAL.kept)
    found = chain(address)
    del LOCAL.kept
    assert found == [("module global", "LOCAL", "_local"), ("attribute", "kept", "Suspect")]


def test_thread_local_of_another_thread() -> None:
    def work(pause: Any) -> None:
        LOCAL.kept = Suspect()
        pause(id(LOCAL.kept))

    with in_another_thread(work) as address:
        found = chain(address)
    assert found == [("module global", "LOCAL", "_local"), ("attribute", "kept", "Suspect")]


def test_module_that_is_not_imported() -> None:
    lonely: Any = types.ModuleType("lonely")
    lonely.kept = Suspect()
    KEEP["m"] = lonely
    address = id(lonely.kept)
    del lonely
    answer = ask(address)
    assert links(answer) == [FIRST, ("item", "m", "module"), ("attribute", "kept", "Suspect")]
    assert answer["retained_by"][1]["detail"] == "lonely"


def test_atexit_callback() -> None:
    suspect = Suspect()
    address = id(suspect)

    def callback(kept: Any = suspect) -> None: ...

    atexit.register(callback)
    del suspect
    try:
        kept = callback
        del callback
        atexit.unregister(kept)
        atexit.register(kept)
        del kept
        answer = ask(address)
    finally:
        atexit._clear()
    assert answer["root"] == "atexit callback"
    assert links(answer) == [("interpreter", None, "function"), ("default", "kept", "Suspect")]


def test_profile_function() -> None:
    class Profiler(Box):
        def __call__(self, *_: Any) -> None: ...

    profiler: Any = Profiler()
    profiler.kept = Suspect()
    address = id(profiler.kept)
    sys.setprofile(profiler)
    del profiler
    try:
        answer = ask(address)
    finally:
        sys.setprofile(None)
    assert answer["root"] == "profile function"
    assert links(answer) == [("interpreter", None, "Profiler"), ("attribute", "kept", "Suspect")]


def test_frozen_objects_are_walked() -> None:
    KEEP["z"] = Box()
    KEEP["z"].kept = [Suspect()]
    address = id(KEEP["z"].kept[0])
    gc.freeze()
    try:
        found = chain(address)
    finally:
        gc.unfreeze()
    assert found == [FIRST, ("item", "z", "Box"), ("attribute", "kept", "list"), ("item", None, "Suspect")]


def test_script_is_called_by_its_own_name(tmp_path: Any) -> None:
    import subprocess

    script = tmp_path / "train.py"
    script.write_text(
        "import _heap\n"
        "class T: pass\n"
        "history = [T()]\n"
        "print(_heap.walk([id(history[0])])['suspects'][0]['root'])\n"
    )
    folder = os.path.dirname(__import__("_heap").__file__)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "module global train.history"
