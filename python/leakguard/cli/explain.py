"""`leakguard explain`: one finding of a saved report. Needs no torch."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from typing import Any

from leakguard.cli.printing import printed, reading_parser
from leakguard.records import to_plain
from leakguard.report import Finding, Report, ReportError, load

EPILOG = """\
example:
  python -m leakguard explain 9f31c0a2 report.json
  python -m leakguard explain 9f3 report.json --json

exit codes: 0 when it is there, 1 when the output could not be written to its end, 2 when the report cannot be
read or has no such finding.
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = reading_parser(
        commands,
        "explain",
        "show one finding of a saved report",
        "Shows where the finding's blocks are born, what keeps them, why, and what to do.",
        EPILOG,
    )
    parser.add_argument("fingerprint", metavar="FINGERPRINT", help="as the report shows it, or its beginning")
    parser.add_argument("report", metavar="REPORT", help="the report")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Prints the finding on stdout. Raises ReportError when there is none of that name."""
    report = load(options.report)
    finding = find(report, options.fingerprint, options.report)
    if options.json:
        return printed(lambda: print(json.dumps(to_plain(finding), indent=1)))
    from leakguard.render.text import print_report

    alone = replace(
        report,
        findings=(finding,),
        why=finding.why or report.why,
        next=finding.fix or "",
        advice=(),
    )
    return printed(lambda: print_report(alone, sys.stdout))


def find(report: Report, fingerprint: str, origin: str) -> Finding:
    """The finding whose fingerprint begins so. Raises ReportError when none does, or several do."""
    found = [one for one in report.findings if fingerprint and one.fingerprint.startswith(fingerprint)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(one.fingerprint for one in found or report.findings) or "none"
    problem = "begins several fingerprints" if found else "is no fingerprint"
    raise ReportError(f"{fingerprint} {problem} in {origin}; {'they are' if found else 'it has'}: {known}.")
