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

__all__ = ["collection_error", "leak_failure", "memory_failure"]


def collection_error(message: str) -> CollectErrorRepr:
    """A file that cannot be collected."""
    return CollectErrorRepr(message)


def leak_failure(error: LeakError, item: pytest.Item) -> ExceptionChainRepr:
    """A test that leaks: the leak trace instead of a traceback, and the line that makes the memory as the
    place of the crash, which is what JUnit XML, annotations and the short summary carry."""
    finding = error.report.findings[0]
    place = finding.allocated_at
    text = failure_text(error.report, error.found, item.config.option.verbose)
    return _failure(text, headline(finding), item, place.file, place.line)


def memory_failure(message: str, item: pytest.Item) -> ExceptionChainRepr:
    """A test that takes too much memory: the message, at the test."""
    return _failure(f"MEMORY  {message}", message, item, None, None)


def _failure(
    text: str, message: str, item: pytest.Item, file: str | None, line: int | None
) -> ExceptionChainRepr:
    test_file, test_line, _ = item.location
    entry = ReprEntryNative([f"{part}\n" for part in text.splitlines()])
    crash = ReprFileLocation(file or test_file, line or (test_line or 0) + 1, message)
    return ExceptionChainRepr([(ReprTraceback([entry], None, style="native"), crash, None)])
