"""A small reader of protobuf's wire format and of pprof's Profile, which knows nothing of how leakguard writes them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) of a message: numbers, and the bytes of what has a length."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 0:
            value, at = varint(message, at)
            yield key >> 3, value
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            length, at = varint(message, at)
            assert at + length <= len(message)
            yield key >> 3, message[at : at + length]
            at += length


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def numbers(packed: bytes) -> list[int]:
    found, at = [], 0
    while at < len(packed):
        value, at = varint(packed, at)
        found.append(value)
    return found


def profile(data: bytes) -> dict[str, Any]:
    """Sample types, samples as (frames, values, labels), with every index looked up; an index that leads nowhere
    raises."""
    parts: dict[int, list[Any]] = {}
    for number, value in fields(gzip.decompress(data)):
        parts.setdefault(number, []).append(value)
    strings = [text.decode() for text in parts[6]]
    assert strings[0] == ""
    functions = {}
    for one in map(dict, map(fields, parts.get(5, ()))):
        assert 3 not in one, "a system name"  # where it is the name, pprof cuts `<module>` out of it
        functions[one[1]] = (strings[one[4]], strings[one[2]])
    locations = {}
    for one in map(dict, map(fields, parts.get(4, ()))):
        line = dict(fields(one[4]))
        file, function = functions[line[1]]
        locations[one[1]] = (file, line[2], function)
    assert 0 not in locations
    assert 0 not in functions
    types = [dict(fields(one)) for one in parts[1]]
    samples = []
    for message in parts.get(2, ()):
        found = list(fields(message))
        labels = [dict(fields(value)) for number, value in found if number == 3]
        one = dict(found)
        values = numbers(one[2])
        assert len(values) == len(types)
        samples.append(
            (
                tuple(locations[number] for number in numbers(one[1])),
                tuple(values),
                {strings[label[1]]: strings[label[2]] for label in labels},
            )
        )
    return {
        "types": [(strings[one[1]], strings[one[2]]) for one in types],
        "samples": samples,
        "time": parts.get(9, [None])[0],
        "default": strings[parts[14][0]],
    }
