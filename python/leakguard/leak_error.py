"""The failures of assertions about memory. Imports neither torch nor pytest."""

from __future__ import annotations

from leakguard.report import Report
from leakguard.testing.failure_text import failure_text

__all__ = ["LeakError", "MemoryLimitError"]


class LeakError(AssertionError):
    """Memory is kept that should have been let go of. `report` has the findings; the text is at most 25 lines
    long."""

    def __init__(self, report: Report, found: str) -> None:
        self.report = report
        self.found = found
        """How it was found: what was repeated, and the limit."""
        super().__init__(report, found)

    def __str__(self) -> str:
        return failure_text(self.report, self.found)


class MemoryLimitError(AssertionError):
    """A test took more memory at once than it may."""
