"""`leakguard stats`: the figures of a run. Needs no torch."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from leakguard.cli.printing import printed, reading_parser
from leakguard.recording import load_recording
from leakguard.run_stats import stats_of

EPILOG = """\
examples:
  python -m leakguard stats run.leakguard
  python -m leakguard stats run.leakguard --json | jq .devices

exit codes: 0 whatever the run did, 1 when the output could not be written to its end, 2 when the file cannot be
read.
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = reading_parser(
        commands,
        "stats",
        "the figures of a run",
        "Shows how many steps a run had and how long they took, how much memory was in use at most and in which\n"
        "step, how much one step made, which call sites had most at the end, and what watching has cost. Of a\n"
        "report, which knows of no single step, what it has.",
        EPILOG,
    )
    parser.add_argument(
        "file", metavar="FILE", help="a capture of `run -o`, also while it is written; or a report"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Prints the figures on stdout. Raises ReportError when the file cannot be read."""
    stats = stats_of(load_recording(options.file))
    if options.json:
        return printed(lambda: print(json.dumps(stats.to_dict(), indent=1)))
    from leakguard.render.sheet_text import print_value

    return printed(lambda: print_value(stats, sys.stdout))
