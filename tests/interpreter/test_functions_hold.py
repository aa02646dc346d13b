"""Objects held by functions, methods and caches."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from heap_world import Box, Suspect, ask, chain, links

KEEP: dict[str, Any] = {}
FIRST = ("module global", "KEEP", "dict")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    KEEP.clear()


def test_closure_variable() -> None:
    def make() -> tuple[Any, int]:
        small, big = 1, Suspect()

        def reader() -> Any:
            return small, big

        return reader, id(big)

    KEEP["f"], address = make()
    assert chain(address) == [FIRST, ("item", "f", "function"), ("closure", "big", "Suspect")]


def test_default_argument() -> None:
    def function(first: int, second: int = 2, third: Any = Suspect()) -> Any:
        return third

    KEEP["f"] = function
    address = id(function.__defaults__[1])  # type: ignore[index]
    del function
    assert chain(address) == [FIRST, ("item", "f", "function"), ("default", "third", "Suspect")]


def test_default_of_a_keyword_argument() -> None:
    def function(*, only: Any = Suspect()) -> Any:
        return only

    KEEP["f"] = function
    address = id(function.__kwdefaults__["only"])
    del function
    assert chain(address) == [FIRST, ("item", "f", "function"), ("default", "only", "Suspect")]


def test_attribute_of_a_function() -> None:
    def function() -> None: ...

    function.kept = Suspect()  # type: ignore[attr-defined]
    KEEP["f"] = function
    address = id(function.kept)  # type: ignore[attr-defined]
    del function
    assert chain(address) == [FIRST, ("item", "f", "function"), ("attribute", "kept", "Suspect")]


def test_partial() -> None:
    KEEP["p"] = functools.partial(print, Suspect(), sep=Suspect())
    by_position, by_keyword = id(KEEP["p"].args[0]), id(KEEP["p"].keywords["sep"])
    assert chain(by_position) == [FIRST, ("item", "p", "partial"), ("partial argument", None, "Suspect")]
    assert chain(by_keyword) == [FIRST, ("item", "p", "partial"), ("partial argument", "sep", "Suspect")]


def test_bound_method() -> None:
    class Trial(Box):
        def release(self) -> None: ...

    trial = Trial()
    trial.kept = Suspect()  # type: ignore[attr-defined]
    KEEP["m"] = trial.release
    address = id(trial.kept)  # type: ignore[attr-defined]
    del trial
    assert chain(address) == [
        FIRST,
        ("item", "m", "method"),
        ("bound method", "release", "Trial"),
        ("attribute", "kept", "Suspect"),
    ]


def test_method_of_a_builtin() -> None:
    KEEP["append"] = [Suspect()].append
    address = id(KEEP["append"].__self__[0])
    assert chain(address) == [
        FIRST,
        ("item", "append", "builtin_function_or_method"),
        ("bound method", "append", "list"),
        ("item", None, "Suspect"),
    ]


@pytest.mark.parametrize("limit", [4, None])
def test_lru_cache(limit: int | None) -> None:
    @functools.lru_cache(maxsize=limit)
    def compute(number: int) -> Suspect:
        return Suspect()

    addresses = [id(compute(number)) for number in range(3)]
    KEEP["compute"] = compute
    del compute
    answer = ask(addresses[1])
    assert links(answer) == [
        FIRST,
        ("item", "compute", "_lru_cache_wrapper"),
        ("cache entry", None, "Suspect"),
    ]
    assert answer["container"] == {"type": "_lru_cache_wrapper", "length": 3, "limit": limit}


def test_instance_that_is_a_key_of_its_methods_cache() -> None:
    class Clip:
        @functools.lru_cache(maxsize=128)
        def pooled(self, scale: int) -> int:
            return scale

    clip = Clip()
    clip.feats = Suspect()  # type: ignore[attr-defined]
    clip.pooled(2)
    address = id(clip.feats)  # type: ignore[attr-defined]
    del clip
    found = chain(address)
    assert found[:2] == [("local", "Clip", "class"), ("class attribute", "pooled", "_lru_cache_wrapper")]
    assert found[-1] == ("attribute", "feats", "Suspect")
