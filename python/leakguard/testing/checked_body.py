"""A test function that runs its body as often as its check asks, whatever kind of function it is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from leakguard.testing.check import Check

__all__ = ["checked_body"]

CAUGHT = (Exception, pytest.skip.Exception, pytest.fail.Exception, pytest.xfail.Exception)
"""What a body may raise when it is run again; an interruption ends the session as ever."""


def checked_body(function: Callable[..., Any], check: Check) -> Callable[..., Any]:
    """`function`, repeated with the same arguments; fixtures are set up once. Looks like it to pytest and its
    plugins."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def checked_async(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            with closing(check.runs()) as runs:
                for _ in runs:
                    try:
                        await function(*args, **kwargs)
                    except CAUGHT as error:
                        if not check.gives_up(error):
                            raise
                        return

        return checked_async

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with closing(check.runs()) as runs:
            for _ in runs:
                try:
                    result = function(*args, **kwargs)
                except CAUGHT as error:
                    if not check.gives_up(error):
                        raise
                    return None
                if result is not None:  # an error that is pytest's to report
                    return result
        return None

    return checked
