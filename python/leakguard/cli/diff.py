"""`leakguard diff`: two saved reports compared. Needs no torch."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from leakguard.cli.printing import printed, reading_parser
from leakguard.report import load
from leakguard.report_diff import compare

EPILOG = """\
example:
  python -m leakguard diff before.json after.json
  python -m leakguard diff before.json after.json --json | jq .findings

exit codes: 0 whatever differs, 1 when the output could not be written to its end, 2 when a report cannot be read.
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = reading_parser(
        commands,
        "diff",
        "compare two saved reports",
        "Compares two reports of `leakguard run --json FILE`, from two commits, machines or environments:\n"
        "which versions differ, and which findings are new, gone, or grow otherwise. Findings are matched\n"
        "by fingerprint, which a shifted line or another folder leaves as it is.",
        EPILOG,
    )
    parser.add_argument("before", metavar="A", help="the earlier report")
    parser.add_argument("after", metavar="B", help="the later report")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Prints the comparison on stdout. Raises ReportError when a report cannot be read."""
    diff = compare(load(options.before), load(options.after))
    if options.json:
        return printed(lambda: print(json.dumps(diff.to_dict(), indent=1)))
    from leakguard.render.sheet_text import print_value

    return printed(lambda: print_value(diff, sys.stdout))
