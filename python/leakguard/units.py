"""Sizes for people, in IEC units (1 KiB = 1024 B), and sizes that people write."""

from __future__ import annotations

import re

_STEP = 1024.0
_NAMES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMGTP]?)(I?)B\s*", re.IGNORECASE)


def format_bytes(size: float) -> str:
    """Three digits that count: `512 B`, `1.50 MiB`, `57.0 MiB`, `1023 MiB`. A rate may be a fraction: `0.40
    B`."""
    sign, size = ("-" if size < 0 else ""), abs(size)
    for name in _NAMES:
        number = f"{size:.0f}" if name == "B" and size == round(size) else _three_digits(size)
        if float(number) < _STEP or name == _NAMES[-1]:
            break
        size /= _STEP
    return f"{sign}{number} {name}"


def format_number(number: float) -> str:
    """A count, or a rate of counts: `38`, `1.5`, `0.02`."""
    return f"{number:.0f}" if number == round(number) or abs(number) >= 100 else f"{number:.2g}"


def format_share(share: float) -> str:
    """A share of one in per cent: `12 %`, `0.8 %`, `under 0.1 %`."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "under 0.1 %"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def format_duration(seconds: float) -> str:
    """A time with three digits that count: `812 us`, `12.3 ms`, `1.20 s`, `3.50 min`."""
    for number, name, limit in (
        (seconds * 1e6, "us", 999.5),
        (seconds * 1e3, "ms", 999.5),
        (seconds, "s", 119.5),
    ):
        if abs(number) < limit:
            return f"{_three_digits(number)} {name}"
    return f"{_three_digits(seconds / 60)} min"


def parse_size(text: str) -> int:
    """The bytes that `text` says: `0 B`, `1.5 MiB`, `2GB`. GiB counts in 1024, GB in 1000, as the standards
    have it.

    Raises ValueError when it is no size; a bare number is none, since nobody can tell its unit.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a size: write a number and a unit, such as '0 B', '512 KiB' or '1.5 GiB'"
        )
    number, prefix, binary = match.groups()
    if binary and not prefix:
        raise ValueError(f"{text!r} is not a size: the unit before 'iB' is missing, as in 'KiB'")
    base = 1024 if binary else 1000
    return round(float(number) * float(base ** _POWERS[prefix.upper()]))


def _three_digits(number: float) -> str:
    decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{decimals}f}"
