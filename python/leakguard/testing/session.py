"""What a test session needs once a test is to be checked. Imports torch; the plugin makes it at the first
such test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from leakguard._native import core
from leakguard.attachment import Attachment
from leakguard.guard import Guard, watch_for_a_while
from leakguard.testing.baseline import Baseline
from leakguard.testing.check import Check, reset_captured_logs
from leakguard.testing.left_behind import LeftBehind
from leakguard.testing.limits import LeakLimit, Limits
from leakguard.testing.repeats import Plan
from leakguard.testing.settings import Settings

if TYPE_CHECKING:
    from leakguard.report import Finding

__all__ = ["CheckingSession"]


class CheckingSession:
    """Attached from construction to `end()`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._baseline = Baseline.load(settings.baseline)
        self._attachment = Attachment(settings.user_code)
        self.left_behind = LeftBehind()
        self.accepted: dict[str, list[Finding]] = {}  # by test: what the fixture found for the new baseline
        self.guard: Guard | None = None  # of the fixture leakguard_guard, while it is in use
        self._shared: Guard | None = None  # of unmarked tests: there may be thousands

    @property
    def is_alive(self) -> bool:
        """False in a forked child, where nothing can be followed."""
        return core.alive()

    def check(self, item: pytest.Item, limits: Limits) -> Check:
        """The check of one test's body."""
        settings = self._settings
        said = limits.leaks or LeakLimit()
        limit = settings.limit if said.size is None else said.size
        return Check(
            plan=Plan.of(
                limit,
                settings.warmup if said.warmup is None else said.warmup,
                settings.repeats if said.repeats is None else said.repeats,
                first_decides=limits.leaks is None,
            ),
            attachment=self._attachment,
            filter_fn=said.filter_fn,
            memory=limits.memory,
            leaks=limits.leaks is not None or (settings.everything and limits.skip_reason is None),
            is_marked=limits.leaks is not None or limits.memory is not None,
            fails=not settings.update_baseline,
            watch=self._own_guard if limits.leaks or limits.memory is not None else self._shared_guard,
            is_known=self.is_known,
            between_runs=_log_reset(item),
        )

    def is_known(self, finding: Finding) -> bool:
        """Whether the baseline lists it. While the baseline is written anew nothing is known."""
        return finding in self._baseline and not self._settings.update_baseline

    def accepts(self, item: pytest.Item) -> Callable[[Finding], bool]:
        """Whether an assertion in this test lets a finding pass: known, or to be known from now on."""

        def accepts(finding: Finding) -> bool:
            if self._settings.update_baseline:
                self.accepted.setdefault(item.nodeid, []).append(finding)
                return True
            return finding in self._baseline

        return accepts

    def end(self) -> None:
        """Puts everything back."""
        if self._shared is not None:
            self._shared.discard()
        self._attachment.release()

    @contextmanager
    def _own_guard(self) -> Iterator[Guard | None]:
        """The fixture's guard, or one that knows the modules."""
        own = None if self.guard is not None else watch_for_a_while(seek_modules=True)
        try:
            yield self.guard or own
        finally:
            if own is not None:
                own.discard()

    @contextmanager
    def _shared_guard(self) -> Iterator[Guard | None]:
        """The fixture's guard, or the one that rests between tests: a guard of its own would cost each test
        more than all the rest."""
        if self.guard is not None:
            yield self.guard
            return
        shared = self._shared
        if (
            shared is None or not shared.active
        ):  # the test before may have stopped it: it was the process's Guard
            shared = self._shared = watch_for_a_while(seek_modules=False)
        elif not shared.renew():
            shared = None
        try:
            yield shared
        finally:
            if shared is not None:
                shared.rest()


def _log_reset(item: pytest.Item) -> Callable[[], None]:
    plugin: Any = item.config.pluginmanager.get_plugin("logging-plugin")
    handlers = [getattr(plugin, name, None) for name in ("caplog_handler", "report_handler")]
    return lambda: reset_captured_logs(handlers)
