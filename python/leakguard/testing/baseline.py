"""The baseline: leaks that a project knows of, by fingerprint, so that only new ones fail.

A JSON file to be kept with the tests; the texts beside the fingerprints are for its readers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakguard.report import Finding

__all__ = ["Baseline", "BaselineError"]

SCHEMA = 1


class BaselineError(ValueError):
    """A baseline that cannot be read; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Known:
    """One known leak: where it was seen and in which tests."""

    title: str
    where: str
    holder: str
    tests: tuple[str, ...]


@dataclass(slots=True)
class Baseline:
    """The known leaks by fingerprint."""

    known: dict[str, Known] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Baseline:
        """The baseline at `path`, empty where there is none. Raises BaselineError for a file that is none."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise BaselineError(f"{path} cannot be read: {error}") from error
        try:
            data = json.loads(text)
            if data["schema"] != SCHEMA:
                raise BaselineError(
                    f"{path} has schema {data['schema']} and this leakguard reads {SCHEMA}: "
                    "write it again with --leakguard-update-baseline"
                )
            return cls(
                {
                    mark: Known(entry["title"], entry["where"], entry["holder"], tuple(entry["tests"]))
                    for mark, entry in data["known"].items()
                }
            )
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise BaselineError(
                f"{path} is no leakguard baseline ({error}): remove it, or write it again with "
                "--leakguard-update-baseline"
            ) from error

    def __contains__(self, finding: Finding) -> bool:
        return finding.fingerprint in self.known

    def updated(self, leaking: Mapping[str, Collection[Finding]], ran: Collection[str]) -> Baseline:
        """The baseline after a session in which the tests `ran` and some were `leaking`.

        What was known only of tests that ran and leak no more is forgotten; tests that did not run keep their
        entries.
        """
        known = {}
        for mark, entry in self.known.items():
            elsewhere = tuple(test for test in entry.tests if test not in ran)
            if elsewhere:
                known[mark] = Known(entry.title, entry.where, entry.holder, elsewhere)
        for test, findings in leaking.items():
            for finding in findings:
                place = finding.allocated_at
                before = known.get(finding.fingerprint)
                known[finding.fingerprint] = Known(
                    title=_without_amounts(finding),
                    where=f"{place.function or 'unknown'}: {place.expression or 'unknown'}",
                    holder=finding.root,
                    tests=tuple(sorted({*(before.tests if before else ()), test})),
                )
        return Baseline(known)

    def save(self, path: Path) -> None:
        """Writes the file, whole or not at all."""
        entries: dict[str, Any] = {
            mark: {
                "title": entry.title,
                "where": entry.where,
                "holder": entry.holder,
                "tests": list(entry.tests),
            }
            for mark, entry in sorted(self.known.items())
        }
        text = json.dumps({"schema": SCHEMA, "known": entries}, indent=2, ensure_ascii=False) + "\n"
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)


def _without_amounts(finding: Finding) -> str:
    """Figures change from run to run, and the file is to change only when the leaks do."""
    return f"{finding.device}, {finding.cause}" if finding.cause != "unknown" else finding.device
