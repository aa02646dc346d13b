"""Assertions on tensor memory, in pytest or anywhere else: that a loop does not grow, that a call leaves
nothing.

    leakguard.assert_no_growth(lambda: train_step(model, batch), steps=20)
    leakguard.assert_released(lambda: evaluate(model))
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from leakguard.caller import why_inert
from leakguard.leak_error import LeakError
from leakguard.units import format_bytes, parse_size

if TYPE_CHECKING:
    from leakguard.attachment import Attachment
    from leakguard.report import Finding

__all__ = ["LeakError", "NoGrowth", "assert_no_growth", "assert_released"]

FEWEST_STEPS = 12
"""Warm-up, and what it takes to tell growth from it."""


def _new_to_all(finding: Finding) -> bool:
    return False


def assert_no_growth(
    step_fn: Callable[[], object],
    steps: int = 20,
    *,
    limit: str = "0 B",
    is_known: Callable[[Finding], bool] = _new_to_all,
) -> None:
    """Calls `step_fn` `steps` times; no call site may keep more and more memory from call to call.

    `limit` is what one call site may keep over all the calls together. What is made in the first calls and
    stays (gradients, the optimizer's state, caches) is no growth, nor is a buffer that replaces its oldest
    entry. Findings for which `is_known` is true do not count. Does nothing but call where leakguard is
    switched off.

    Raises LeakError with the leak traces, ValueError when `steps` is below 12 or `limit` no size.
    """
    __tracebackhide__ = True
    allowed = parse_size(limit)
    if steps < FEWEST_STEPS:
        raise ValueError(f"steps is {steps}: growth is told from warm-up after {FEWEST_STEPS} steps")
    if why_inert() is not None:
        for _ in range(steps):
            step_fn()
        return
    from leakguard.guard import current, watch_for_a_while
    from leakguard.testing.survivors import counted

    own = watch_for_a_while(seek_modules=True)
    guard = own or current()
    assert guard is not None
    try:
        guard.restart()
        for _ in range(steps):
            step_fn()
            guard.step()
        report = guard.report()
        guard.restart()
    finally:
        if own is not None:
            own.discard()
    found = counted(report.findings, allowed)
    _raise(
        found, report.steps.count, f"in {steps} calls; limit {format_bytes(allowed)} a call site", is_known
    )


def assert_released(
    fn: Callable[[], object],
    *,
    limit: str = "0 B",
    warmup: int = 0,
    is_known: Callable[[Finding], bool] = _new_to_all,
) -> None:
    """Calls `fn`; nothing that is born in the call may outlive it. Its result is dropped before that is
    looked at.

    `warmup` calls come first and may leave what they like: workspaces, caches, the optimizer's state. `limit`
    is what one call site may keep. Reference cycles are collected before anything is said of them. Findings
    for which `is_known` is true do not count. Raises LeakError with the leak traces, ValueError when `limit`
    is no size.
    """
    __tracebackhide__ = True
    for _ in range(warmup):
        fn()
    with NoGrowth(limit, is_known, unit="call"):
        fn()


class NoGrowth:
    """A `with` block: nothing that is born in it may be alive after it, but `limit` for each call site.

    A local that the block has bound is alive after it. Raises LeakError with the leak traces, unless the
    block itself raises; ValueError when `limit` is no size. `unit` is the word for the block.
    """

    def __init__(
        self, limit: str = "0 B", is_known: Callable[[Finding], bool] = _new_to_all, *, unit: str = "block"
    ) -> None:
        self._limit = parse_size(limit)
        self._is_known = is_known
        self._unit = unit
        self._attachment: Attachment | None = None

    def __enter__(self) -> None:
        if why_inert() is not None:
            return
        from leakguard.attachment import Attachment
        from leakguard.testing.births import BirthRow

        self._attachment = Attachment()
        self._births = BirthRow()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        if self._attachment is None:
            return
        try:
            found = self._findings() if error is None else ()
        finally:
            self._attachment.release()
        how = f"after the {self._unit}; limit {format_bytes(self._limit)} a call site"
        _raise(found, 1, how, self._is_known)

    def _findings(self) -> tuple[Finding, ...]:
        from leakguard.testing.survivors import counted, survivors_as_findings

        assert self._attachment is not None
        if not self._kept():
            return ()
        gc.collect()
        groups = self._kept()
        if not groups:
            return ()
        kept = self._births.kept()
        return counted(
            survivors_as_findings(groups, kept, self._births, self._attachment, first=1, unit=self._unit), 0
        )

    def _kept(self) -> set[int]:
        """Groups of which more than the limit is alive."""
        if self._births.is_quiet():
            return set()
        (kept,) = self._births.kept()
        return {group for group, (_, size) in kept.items() if size > self._limit}


def _raise(
    findings: tuple[Finding, ...], steps: int, found: str, is_known: Callable[[Finding], bool]
) -> None:
    __tracebackhide__ = True
    new = tuple(finding for finding in findings if not is_known(finding))
    if new:
        from leakguard.report import Steps
        from leakguard.testing.survivors import leak_report

        raise LeakError(leak_report(new, Steps(count=steps)), found)
