"""`leakguard diff`: two runs compared. Needs no torch."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from leakguard.cli.printing import printed, reading_parser
from leakguard.recording import load_recording
from leakguard.recording_diff import compare_recordings

EPILOG = """\
example:
  python -m leakguard diff before.json after.json
  python -m leakguard diff before.leakguard after.leakguard --json | jq .sites

exit codes: 0 whatever differs, 1 when the output could not be written to its end, 2 when a report cannot be read.
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = reading_parser(
        commands,
        "diff",
        "compare two runs",
        "Compares two runs, of two commits, machines or environments: which versions, times and peaks differ, and\n"
        "which findings are new, gone, or grow otherwise. Of captures (`run -o FILE`) also which call sites and\n"
        "categories have more or less. Findings are matched by fingerprint, call sites by file name, function and\n"
        "expression: a shifted line or another folder leaves them as they are.",
        EPILOG,
    )
    parser.add_argument("before", metavar="A", help="a capture, or a report")
    parser.add_argument("after", metavar="B", help="the later one")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Prints the comparison on stdout. Raises ReportError when a report cannot be read."""
    diff = compare_recordings(load_recording(options.before), load_recording(options.after))
    if options.json:
        return printed(lambda: print(json.dumps(diff.to_dict(), indent=1)))
    from leakguard.render.sheet_text import print_value

    return printed(lambda: print_value(diff, sys.stdout))
