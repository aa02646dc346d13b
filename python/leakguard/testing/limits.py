"""The markers: what each may say, and what is wrong with one that says something else.

Each marker is a plain function, whose signature and first line are also the help that `pytest --markers`
shows. Read at collection, so nothing here imports torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakguard.units import parse_size

if TYPE_CHECKING:
    import pytest

    from leakguard.report import Finding

__all__ = ["LeakLimit", "Limits", "MarkerError", "limits_of", "marker_help"]


class MarkerError(ValueError):
    """A marker that cannot be meant; the message says how to write it."""


@dataclass(frozen=True, slots=True)
class LeakLimit:
    """What one call site may keep; None stands for the session's own setting."""

    size: int | None = None
    warmup: int | None = None
    repeats: int | None = None
    filter_fn: Callable[[Finding], bool] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """All that the markers of one test say."""

    leaks: LeakLimit | None = None
    memory: int | None = None
    skip_reason: str | None = None


def limit_gpu_leaks(
    size: str | None = None,
    *,
    warmup: int | None = None,
    repeats: int | None = None,
    filter_fn: Callable[[Finding], bool] | None = None,
) -> LeakLimit:
    """Fail when a call site keeps more tensor memory than this for each run of the test, or in the steps of
    its loop.

    The body is run again until that is decided: at most `warmup` + `repeats` times. `filter_fn(finding)`
    returns False for what does not count.
    """
    limit = None if size is None else _size(size)
    _count("warmup", warmup, least=0)
    _count("repeats", repeats, least=1)
    if filter_fn is not None and not callable(filter_fn):
        raise MarkerError(f"filter_fn is {filter_fn!r}: give a function that takes a leakguard.Finding")
    return LeakLimit(limit, warmup, repeats, filter_fn)


def limit_gpu_memory(size: str) -> int:
    """Fail when the test has more tensor memory at once than this, on top of what its body found."""
    return _size(size)


def skip_leak_check(*, reason: str) -> str:
    """Leave this test out of --leakguard, for the reason given."""
    if not isinstance(reason, str) or not reason.strip():
        raise MarkerError("it needs a reason: @pytest.mark.skip_leak_check(reason='why')")
    return reason


MARKERS: tuple[Callable[..., Any], ...] = (limit_gpu_leaks, limit_gpu_memory, skip_leak_check)

USAGE = {
    "limit_gpu_leaks": "limit_gpu_leaks('0 B', warmup=3, repeats=8, filter_fn=None)",
    "limit_gpu_memory": "limit_gpu_memory('1 GiB')",
    "skip_leak_check": "skip_leak_check(reason='why')",
}


def marker_help() -> list[str]:
    """Lines for pytest's list of markers."""
    lines = []
    for marker in MARKERS:
        names = ", ".join(inspect.signature(marker).parameters)
        lines.append(f"{marker.__name__}({names}): {(marker.__doc__ or '').splitlines()[0]}")
    return lines


def limits_of(item: pytest.Item) -> Limits:
    """What the closest marker of each kind says. Raises MarkerError for one that cannot be meant."""
    said = {marker.__name__: _said(item, marker) for marker in MARKERS}
    return Limits(said["limit_gpu_leaks"], said["limit_gpu_memory"], said["skip_leak_check"])


def _said(item: pytest.Item, marker: Callable[..., Any]) -> Any:
    mark = item.get_closest_marker(marker.__name__)
    if mark is None:
        return None
    try:
        return marker(*mark.args, **mark.kwargs)
    except TypeError as error:
        usage = USAGE[marker.__name__]
        raise MarkerError(f"@pytest.mark.{marker.__name__}: {error}; write it as {usage}") from error
    except ValueError as error:
        raise MarkerError(f"@pytest.mark.{marker.__name__}: {error}") from error


def _size(size: object) -> int:
    if not isinstance(size, str):
        raise MarkerError(
            f"{size!r} is not a size: write a number and a unit, such as '0 B', '512 KiB' or '1.5 GiB'"
        )
    return parse_size(size)


def _count(name: str, value: object, *, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise MarkerError(f"{name} is {value!r}: give a whole number, {least} or more")
