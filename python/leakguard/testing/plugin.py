"""The hooks of one test session: which tests are checked, and what becomes of the findings."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from leakguard._version import __version__
from leakguard.testing.limits import MarkerError, limits_of
from leakguard.testing.settings import Settings
from leakguard.units import format_bytes

if TYPE_CHECKING:
    from leakguard.testing.check import Check
    from leakguard.testing.results import Results
    from leakguard.testing.session import CheckingSession

__all__ = ["LeakguardPlugin"]

CHECK: pytest.StashKey[Check] = pytest.StashKey()


class LeakguardPlugin:
    """What one session has to remember, and the hooks that are about tests."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._tells_all = settings.json is not None or settings.html is not None
        self._is_off = os.environ.get("LEAKGUARD") == "0"
        self._session: CheckingSession | None = None
        self._results: Results | None = None
        self._failed: set[str] = set()
        self._ran: set[str] = set()

    def checking_session(self) -> CheckingSession:
        """What a checked test needs, torch included. Raises pytest.UsageError when it cannot be had: the baseline
        cannot be read, or the native modules do not fit this torch."""
        if self._session is None:
            from leakguard.testing.baseline import BaselineError

            try:
                from leakguard.testing.session import CheckingSession

                self._session = CheckingSession(self._settings)
            except (BaselineError, ImportError) as error:
                raise pytest.UsageError(str(error)) from error
        return self._session

    @property
    def results(self) -> Results:
        """What was found so far; in the main process of a distributed session, by all workers."""
        if self._results is None:
            from leakguard.testing.results import Results

            self._results = Results()
        return self._results

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, None]:
        """A marker that cannot be meant is an error of its file."""
        outcome = yield
        report = outcome.get_result()
        wrong = []
        for node in report.result if report.passed else ():
            if isinstance(node, pytest.Item):
                try:
                    limits_of(node)
                except MarkerError as error:
                    wrong.append(f"{node.nodeid}: {error}")
        if wrong:
            from leakguard.testing.pytest_reports import collection_error

            report.outcome = "failed"
            report.longrepr = collection_error("\n".join(wrong))
            report.result = []

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, None, None]:
        """What is born from here on is this test's."""
        session = self._session_for_everything()
        if session is None:
            yield
            return
        from leakguard.testing.left_behind import Owner

        session.left_behind.turn(Owner(item.nodeid))
        yield
        if session.is_alive:
            session.left_behind.turn(None)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, None, None]:
        """What a fixture makes that outlives the test is the fixture's."""
        session = self._session if self._settings.everything else None
        if session is None or fixturedef.scope == "function" or not session.is_alive:
            yield
            return
        from leakguard.testing.left_behind import Owner

        ledger = session.left_behind
        before = ledger.owner
        ledger.turn(Owner(before.test if before else "", fixturedef.argname, str(fixturedef.scope)))
        yield
        ledger.turn(before)

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, None, None]:
        """Test functions: innermost, after the plugins that make a coroutine into a function."""
        with self._checked(pyfuncitem):
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Methods of unittest.TestCase, which pytest does not call itself."""
        from _pytest.unittest import TestCaseFunction

        if not isinstance(item, TestCaseFunction):
            yield
            return
        with self._checked(item) as body:
            if body is None:
                yield
                return
            # What pytest puts in the place of the method itself, unless it is a coroutine.
            case = getattr(item, "_testcase", None) or item.instance
            setattr(case, item.name, body)
            try:
                yield
            finally:
                vars(case).pop(item.name, None)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, None]:
        """Puts the leak trace in the place of a traceback, and what was found on the report."""
        outcome = yield
        if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
            self._failed.add(item.nodeid)
        check = item.stash.get(CHECK, None) if call.when == "call" else None
        accepted = (
            self._session.accepted.pop(item.nodeid, []) if self._session and call.when == "call" else []
        )
        if check is None and not accepted:
            return
        from leakguard.testing.check import Outcome

        report = outcome.get_result()
        found = check.outcome if check is not None else Outcome()
        if accepted:
            found.status = "leak"
            found.findings += tuple(accepted)
        if self._tells_all or found.is_told or found.status != "clean" or found.collected_bytes:
            from leakguard.testing.results import TestResult

            report.leakguard = TestResult.of(item.nodeid, found).to_dict()
        if call.excinfo is not None and found.status in ("leak", "memory") and report.failed:
            from leakguard.leak_error import LeakError, MemoryLimitError
            from leakguard.testing.pytest_reports import leak_failure, memory_failure

            error = call.excinfo.value
            if isinstance(error, LeakError):
                report.longrepr = leak_failure(error, item)
            elif isinstance(error, MemoryLimitError):
                report.longrepr = memory_failure(str(error), item)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In the main process: gathers what was found."""
        if report.when == "call":
            self._ran.add(report.nodeid)
            found = getattr(report, "leakguard", None)
            if found is not None:
                from leakguard.testing.results import TestResult

                self.results.add(TestResult.from_dict(found))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """In the main process of a distributed session: what the tests of a worker have left behind."""
        text = getattr(node, "workeroutput", {}).get("leakguard_left_behind")
        if text:
            from leakguard.testing.left_behind import Leftover

            self.results.left_behind.extend(map(Leftover.from_dict, json.loads(text)))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """All fixtures are down: what is left? Then the files."""
        checking = self._session
        if checking is not None and checking.is_alive:
            if self._settings.everything:
                self.results.left_behind.extend(checking.left_behind.leftovers(self._failed))
            checking.end()
        if hasattr(session.config, "workeroutput"):
            left = [leftover.to_dict() for leftover in self.results.left_behind] if self._results else []
            session.config.workeroutput["leakguard_left_behind"] = json.dumps(left)
            return
        self._write_files()

    def _write_files(self) -> None:
        settings = self._settings
        if settings.json is not None:
            self.results.write_json(settings.json)
        if settings.html is not None:
            from leakguard.testing.html_page import html_page

            settings.html.parent.mkdir(parents=True, exist_ok=True)
            settings.html.write_text(html_page(self.results), encoding="utf-8")
        if settings.update_baseline:
            from leakguard.testing.baseline import Baseline

            leaking = {test.nodeid: test.findings for test in self.results.with_status("leak")}
            Baseline.load(settings.baseline).updated(leaking, self._ran).save(settings.baseline)

    def pytest_report_header(self) -> str | None:
        """One line, when every test is checked or nothing can be."""
        if self._is_off:
            return "leakguard: switched off by LEAKGUARD=0"
        if not self._settings.everything:
            return None
        limit = format_bytes(self._settings.limit)
        return f"leakguard: {__version__}, checks every test, limit {limit} a call site"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The section at the end."""
        if self._results is None:
            return
        from leakguard.testing.summary import github_annotations, summary_lines

        settings = self._settings
        lines = summary_lines(self.results, self._config.option.verbose)
        leaking = self.results.with_status("leak")
        if settings.update_baseline:
            lines.append(f"baseline written: {settings.baseline}")
        elif leaking and settings.baseline.exists():
            lines.append("accept what leaks now as known: --leakguard-update-baseline")
        if lines:
            terminalreporter.section("leakguard")
            for line in lines:
                terminalreporter.write_line(line)
        if os.environ.get("GITHUB_ACTIONS") == "true" and not settings.update_baseline:
            for line in github_annotations(self.results):
                terminalreporter.write_line(line)

    @contextmanager
    def _checked(self, item: pytest.Function) -> Iterator[Callable[..., Any] | None]:
        """The test function as one that is checked, in its place; None for a test that is not."""
        if CHECK in item.stash:  # of a run before this one
            del item.stash[CHECK]
        check = self._check_of(item)
        if check is None:
            yield None
            return
        from leakguard.testing.checked_body import checked_body

        item.stash[CHECK] = check
        body = item.obj
        item.obj = checked_body(body, check)
        try:
            yield item.obj
        finally:
            item.obj = body

    def _check_of(self, item: pytest.Function) -> Check | None:
        if self._is_off:
            return None
        try:
            limits = limits_of(item)
        except MarkerError as error:  # added after collection
            raise pytest.UsageError(str(error)) from error
        session: CheckingSession | None
        if limits.leaks is not None or limits.memory is not None:
            session = self.checking_session()
        else:
            session = self._session_for_everything() if limits.skip_reason is None else None
        return session.check(item, limits) if session is not None and session.is_alive else None

    def _session_for_everything(self) -> CheckingSession | None:
        """With --leakguard, and once somebody has imported torch: there is nothing to see before."""
        if not self._settings.everything or self._is_off:
            return None
        if self._session is None and "torch" not in sys.modules:
            return None
        session = self.checking_session()
        return session if session.is_alive else None
