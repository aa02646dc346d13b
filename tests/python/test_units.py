from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakguard.units import format_bytes, format_share, parse_size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536 * 1024, "1.50 MiB"),
        (57 * 2**20, "57.0 MiB"),
        (1023 * 2**20, "1023 MiB"),
        (2**30 - 1, "1.00 GiB"),
        (-5 * 2**40, "-5.00 TiB"),
        (2**62, "4096 PiB"),
        (0.4, "0.40 B"),
        (12.8, "12.8 B"),
        (1023.6, "1.00 KiB"),
    ],
)
def test_format_bytes(size: float, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (0.0004, "under 0.1 %"), (0.008, "0.8 %"), (0.123, "12 %")]
)
def test_format_share(share: float, text: str) -> None:
    assert format_share(share) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0 B", 0),
        ("512B", 512),
        ("1 KiB", 1024),
        ("1 kB", 1000),
        (" 1.5 MiB ", 3 * 2**19),
        ("2GB", 2 * 10**9),
        ("2gib", 2**31),
        (".5 TiB", 2**39),
        ("1. PB", 10**15),
    ],
)
def test_parse_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "12", "1 iB", "-1 B", "1 MiB/s", "1e3 B", "one MiB", "1 M", "1,5 MiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@settings(deadline=None)
@given(st.integers(0, 2**60))
def test_a_formatted_size_reads_back_to_three_digits(size: int) -> None:
    assert abs(parse_size(format_bytes(size)) - size) <= 0.005 * size
