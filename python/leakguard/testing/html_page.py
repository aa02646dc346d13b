"""The results of a session as one page that needs no other file."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakguard.report import Report, Steps, versions
from leakguard.testing.failure_text import failure_text
from leakguard.testing.results import Results, TestResult
from leakguard.units import format_bytes

if TYPE_CHECKING:
    from leakguard.testing.left_behind import Leftover

__all__ = ["html_page"]


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .25rem .75rem .25rem 0;
border-bottom: 1px solid #8884; vertical-align: top; } td.number { text-align: right; white-space: nowrap; }
pre { overflow-x: auto; background: #8881; padding: .75rem; } .leak { color: #b3261e; font-weight: 600; }
.memory { color: #b3261e; } .known, .undecided { color: #8a6100; } .clean { color: #1b6e3c; }
:root { color-scheme: light dark; }
"""


def html_page(results: Results) -> str:
    """Everything that a session has found."""
    here = versions()
    checked = f"{len(results.tests)} tests checked" if len(results.tests) != 1 else "1 test checked"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f"<title>leakguard: {checked}</title><style>{STYLE}</style></head><body>",
            f"<h1>leakguard: {checked}</h1>",
            f"<p>{_text(f'leakguard {here.leakguard}, torch {here.torch}, python {here.python}')}</p>",
            _tests(list(results.tests.values())),
            *(_trace(result) for result in results.tests.values() if result.findings),
            _leftovers(results.left_behind),
            "</body></html>",
        ]
    )


def _tests(results: Sequence[TestResult]) -> str:
    rows = "".join(
        f'<tr><td class="{result.status}">{result.status}</td><td>{_text(result.nodeid)}</td>'
        f'<td class="number">{result.runs}</td><td class="number">{result.steps}</td>'
        f"<td>{_text(result.findings[0].title if result.findings else result.note)}</td></tr>"
        for result in results
    )
    return f"<table><tr><th>status<th>test<th>runs<th>steps<th>finding</tr>{rows}</table>"


def _trace(result: TestResult) -> str:
    first = result.findings[0]
    report = Report(
        status="leak",
        why=first.why,
        next=first.fix or "",
        steps=Steps(count=result.steps),
        findings=result.findings,
    )
    text = failure_text(report, f"in {result.runs} runs of the test body", 2)
    return f"<h2>{_text(result.nodeid)}</h2><pre>{_text(text)}</pre>"


def _leftovers(leftovers: Sequence[Leftover]) -> str:
    if not leftovers:
        return ""
    rows = "".join(
        f"<tr><td>{_text(one.owner.fixture or one.owner.test)}</td>"
        f'<td class="number">{format_bytes(one.bytes)}</td><td class="number">{one.blocks}</td>'
        f"<td>{_text(f'{one.place.file}:{one.place.line}')}</td><td>{_text(one.holder)}</td></tr>"
        for one in leftovers
    )
    head = "<tr><th>left by<th>bytes<th>blocks<th>born at<th>held by</tr>"
    return f"<h2>Left behind</h2><table>{head}{rows}</table>"


def _text(text: str) -> str:
    return html.escape(text)
