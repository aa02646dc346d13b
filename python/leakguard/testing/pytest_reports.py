"""Failures in the shapes that pytest shows, writes into JUnit XML and sends from worker to controller."""

from __future__ import annotations

import pytest
from _pytest._code.code import (
    ExceptionChainRepr,
    ReprEntryNative,
    ReprFileLocation,
    ReprTraceback,
)
from _pytest.reports import CollectErrorRepr
from leakguard.leak_error import LeakError
from leakguard.testing.failure_text import failure_text, headline

__all__ = ["collection_error", "leak_failure"]


def collection_error(message: str) -> CollectErrorRepr:
    """A file that cannot be collected."""
    return CollectErrorRepr(message)


def leak_failure(error: LeakError, item: pytest.Item) -> ExceptionChainRepr:
    """A test that leaks: the leak trace instead of a traceback, and the line that makes the memory as the place of the
    crash, which is what JUnit XML, annotations and the short summary carry."""
    finding = error.report.findings[0]
    place = finding.allocated_at
    file, line, _ = item.location
    text = failure_text(error.report, error.found, item.config.option.verbose)
    entry = ReprEntryNative([f"{part}\n" for part in text.splitlines()])
    crash = ReprFileLocation(place.file or file, place.line or (line or 0) + 1, headline(finding))
    traceback = ReprTraceback([entry], None, style="native")
    return ExceptionChainRepr([(traceback, crash, None)])
