"""What a session has found, as plain values that travel between processes and into files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakguard.records import from_plain, to_plain
from leakguard.report import Finding, versions

if TYPE_CHECKING:
    from leakguard.testing.check import Outcome
    from leakguard.testing.left_behind import Leftover

__all__ = ["Results", "TestResult"]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class TestResult:
    """The outcome of one test's check."""

    __test__ = False

    nodeid: str
    status: str
    runs: int
    steps: int
    peak_bytes: int | None
    findings: tuple[Finding, ...]
    collected_bytes: int
    note: str

    @classmethod
    def of(cls, nodeid: str, outcome: Outcome) -> TestResult:
        """From a check that has ended."""
        return cls(
            nodeid,
            outcome.status,
            outcome.runs,
            outcome.steps,
            outcome.peak_bytes,
            outcome.findings,
            outcome.collected_bytes,
            outcome.note,
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON, and for the wire between processes."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TestResult:
        """The result that `to_dict` described."""
        findings = tuple(from_plain(Finding, finding) for finding in data["findings"])
        return cls(**{**data, "findings": findings})


@dataclass(slots=True)
class Results:
    """By test; of a test that ran more than once, the last."""

    tests: dict[str, TestResult] = field(default_factory=dict)
    left_behind: list[Leftover] = field(default_factory=list)

    def add(self, result: TestResult) -> None:
        """Takes a test's result."""
        self.tests[result.nodeid] = result

    def with_status(self, *statuses: str) -> list[TestResult]:
        """The tests that ended so."""
        return [result for result in self.tests.values() if result.status in statuses]

    def write_json(self, path: Path) -> None:
        """Everything, for other programs."""
        here = versions()
        data = {
            "schema": SCHEMA,
            "leakguard": here.leakguard,
            "torch": here.torch,
            "python": here.python,
            "tests": [result.to_dict() for result in self.tests.values()],
            "left_behind": [leftover.to_dict() for leftover in self.left_behind],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
