"""The fixtures: assertions to make inside a test, and the Guard that watches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from leakguard import assertions
from leakguard.guard import Guard, current, watch_for_a_while

if TYPE_CHECKING:
    from leakguard.report import Finding
    from leakguard.testing.session import CheckingSession

__all__ = ["GpuLeaks", "guard_for_test"]


class GpuLeaks:
    """Assertions on tensor memory; each raises leakguard.LeakError. A leak that the baseline knows passes."""

    def __init__(self, is_known: Callable[[Finding], bool]) -> None:
        self._is_known = is_known

    def no_growth(self, limit: str = "0 B") -> assertions.NoGrowth:
        """Nothing that was born in the `with` block may be alive after it, but `limit` for each call site."""
        return assertions.NoGrowth(limit, self._is_known)

    def assert_no_growth(self, step_fn: Callable[[], object], steps: int = 20, *, limit: str = "0 B") -> None:
        """As leakguard.assert_no_growth."""
        __tracebackhide__ = True
        assertions.assert_no_growth(step_fn, steps, limit=limit, is_known=self._is_known)

    def assert_released(self, fn: Callable[[], object], *, limit: str = "0 B", warmup: int = 0) -> None:
        """As leakguard.assert_released."""
        __tracebackhide__ = True
        assertions.assert_released(fn, limit=limit, warmup=warmup, is_known=self._is_known)


def guard_for_test(session: CheckingSession) -> Iterator[Guard]:
    """The Guard of a test, from its setup to its teardown: one of its own, unless the process is watched
    already."""
    own = watch_for_a_while(seek_modules=True)
    session.guard = own
    try:
        yield own or current() or Guard(inert="leakguard is switched off in this process")
    finally:
        session.guard = None
        if own is not None:
            own.discard()
