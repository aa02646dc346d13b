"""pprof: live bytes and blocks by call site, as a heap profile.

The messages and field numbers are those of github.com/google/pprof/proto/profile.proto. Sample types have the names
that Go's heap profiles have, so that pprof's options for them work, `-diff_base` included.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable

from leakguard.exports.parts import Frame, clean, frames_of, live_groups
from leakguard.memory_snapshot import LiveGroup
from leakguard.recording import Recording

__all__ = ["pprof"]

SAMPLE_TYPES = (("inuse_objects", "count"), ("inuse_space", "bytes"))


def pprof(recording: Recording) -> bytes:
    """A gzipped Profile. Labels are `device`, `category`, `phase` and `module`. Raises ReportError without live
    memory."""
    encoder = _Encoder()
    for group in live_groups(recording):
        encoder.add_sample(group)
    began = recording.began
    return gzip.compress(encoder.profile(None if began is None else round(began * 1e9)), mtime=0)


class _Encoder:
    """One Profile message while it is made. Numbers of locations and functions begin with 1; string 0 is empty."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[Frame, int] = {}
        self._messages: list[bytes] = []

    def add_sample(self, group: LiveGroup) -> None:
        locations = [self._location(frame) for frame in frames_of(group.place)]
        facts = {
            "device": group.device,
            "category": group.category,
            "phase": group.place.phase,
            "module": group.place.module,
            "state": "waits for a stream" if group.pending else None,
            "pool": "private" if group.private_pool else None,
        }
        labels = [
            _bytes(3, _number(1, self._string(name)) + _number(2, self._string(value)))
            for name, value in facts.items()
            if value
        ]
        values = (group.blocks, group.bytes)
        self._messages.append(_bytes(2, _packed(1, locations) + _packed(2, values) + b"".join(labels)))

    def profile(self, time_nanos: int | None) -> bytes:
        types = [
            _bytes(1, _number(1, self._string(name)) + _number(2, self._string(unit)))
            for name, unit in SAMPLE_TYPES
        ]
        default = _number(14, self._string(SAMPLE_TYPES[-1][0]))
        time = b"" if time_nanos is None else _number(9, time_nanos)
        table = [_bytes(6, text.encode()) for text in self._strings]
        return b"".join([*types, *self._messages, *table, time, default])

    def _location(self, frame: Frame) -> int:
        if frame not in self._locations:
            number = self._locations[frame] = len(self._locations) + 1
            line = _number(1, self._function(frame)) + _number(2, frame.line)
            self._messages.append(_bytes(4, _number(1, number) + _bytes(4, line)))
        return self._locations[frame]

    def _function(self, frame: Frame) -> int:
        key = (frame.file, frame.function)
        if key not in self._functions:
            number = self._functions[key] = len(self._functions) + 1
            name, file = self._string(frame.function), self._string(frame.file)
            # No system name: where it is the name, pprof takes `<module>` and `<lambda>` for templates of C++.
            self._messages.append(_bytes(5, _number(1, number) + _number(2, name) + _number(4, file)))
        return self._functions[key]

    def _string(self, text: str) -> int:
        return self._strings.setdefault(clean(text), len(self._strings))


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _bytes(field, b"".join(map(_varint, values)))
