"""`leakguard show`: a saved report, read again. Needs no torch."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from leakguard.cli.printing import printed
from leakguard.report import load

EPILOG = """\
example:
  python -m leakguard show report.json
  python -m leakguard show report.json --json | jq .findings

exit codes: 0 whatever the report says, 2 when it cannot be read.
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = commands.add_parser(
        "show",
        help="show a saved report",
        description="Shows a report that `leakguard run --json FILE` or `Report.save` has written.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="the report")
    parser.add_argument("--json", action="store_true", help="print it as JSON, checked against the schema")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Prints the report on stdout. Raises ReportError when it cannot be read."""
    report = load(options.file)
    if options.json:
        return printed(lambda: print(json.dumps(report.to_dict(), indent=1)))
    from leakguard.render.text import print_report

    return printed(lambda: print_report(report, sys.stdout))
