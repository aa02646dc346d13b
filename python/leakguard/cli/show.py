"""`leakguard show`: a saved report, or a memory snapshot of torch's. Needs no torch."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from leakguard.cli.printing import printed, reading_parser
from leakguard.report import load
from leakguard.torch_snapshot import is_torch_snapshot, load_torch_snapshot

EPILOG = """\
example:
  python -m leakguard show report.json
  python -m leakguard show report.json --json | jq .findings
  python -m leakguard show snapshot.pickle

exit codes: 0 whatever the file says, 1 when the output could not be written to its end, 2 when it cannot be read.
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = reading_parser(
        commands,
        "show",
        "show a saved report, or a memory snapshot of torch's",
        "Shows a report that `leakguard run --json FILE` or `Report.save` has written, or a pickle of\n"
        "torch.cuda.memory._dump_snapshot: who holds live memory, and how reserved memory is cut up.\n"
        "Nothing in a pickle is executed.",
        EPILOG,
    )
    parser.add_argument("file", metavar="FILE", help="the report or the pickle")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Prints what the file holds on stdout. Raises ReportError when it cannot be read."""
    if is_torch_snapshot(options.file):
        snapshot = load_torch_snapshot(options.file)
        if options.json:
            return printed(lambda: print(json.dumps(snapshot.to_dict(), indent=1)))
        from leakguard.render.sheet_text import print_value

        return printed(lambda: print_value(snapshot, sys.stdout))
    report = load(options.file)
    if options.json:
        return printed(lambda: print(json.dumps(report.to_dict(), indent=1)))
    from leakguard.render.text import print_report

    return printed(lambda: print_report(report, sys.stdout))
