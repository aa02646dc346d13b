"""Frozen dataclasses to plain JSON values and back, with errors that name the place that is wrong.

A record is a dataclass whose fields are records, tuples, literals, optional values or plain numbers, strings
and truth values. Unknown keys are passed over and a missing key takes the field's default, so that a reader
and a writer of neighbouring versions understand each other.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union

Record = TypeVar("Record")

WORDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}


class RecordError(ValueError):
    """A value does not have the shape of its record. `place` is the path to it, such as
    `findings[0].bytes`."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.place = place


def to_plain(value: Any) -> Any:
    """The same value in dictionaries, lists, strings and numbers; fields in the order of their
    declaration."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    return value


def from_plain(record: type[Record], value: object, place: str = "") -> Record:
    """The record that `value` describes. Raises RecordError where it describes none."""
    if not isinstance(value, Mapping):
        raise _mismatch(place, "an object", value)
    hints = _hints(typing.cast(Any, record))
    given: dict[str, Any] = {}
    for field in dataclasses.fields(record):  # type: ignore[arg-type]  # any dataclass will do
        inner = f"{place}.{field.name}" if place else field.name
        if field.name in value:
            given[field.name] = _convert(hints[field.name], value[field.name], inner)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise RecordError(inner, "is missing")
    return record(**given)


@functools.cache
def _hints(record: Any) -> dict[str, Any]:
    return typing.get_type_hints(record)


def _convert(hint: Any, value: object, place: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in arguments if one is not type(None))
        return None if value is None else _convert(inner, value, place)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise _mismatch(place, "a list", value)
        return tuple(_convert(arguments[0], item, f"{place}[{index}]") for index, item in enumerate(value))
    if origin is Literal:
        if value not in arguments:
            raise _mismatch(place, "one of " + ", ".join(map(str, arguments)), value)
        return value
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast(type, hint), value, place)
    return _scalar(hint, value, place)


def _scalar(hint: type, value: object, place: str) -> object:
    """JSON writers differ in whether 3 and 3.0 are the same number; here they are."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        if hint is float:
            return float(value)
        if hint is int and value == int(value):
            return int(value)
    elif hint in (str, bool) and isinstance(value, hint):
        return value
    raise _mismatch(place, WORDS[hint], value)


def _mismatch(place: str, expected: str, found: object) -> RecordError:
    shown = repr(found)
    return RecordError(
        place, f"expected {expected}, found {shown if len(shown) <= 60 else shown[:57] + '...'}"
    )
