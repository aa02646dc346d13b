"""`leakguard diff`: two runs compared, or two of torch's memory snapshots. Needs no torch."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from leakguard.cli.printing import printed, reading_parser
from leakguard.memory_snapshot import SnapshotDiff
from leakguard.recording import load_recording
from leakguard.recording_diff import compare_recordings
from leakguard.report import ReportError
from leakguard.report_diff import ReportDiff
from leakguard.torch_snapshot import is_torch_snapshot, load_torch_snapshot

EPILOG = """\
example:
  python -m leakguard diff before.json after.json
  python -m leakguard diff before.leakguard after.leakguard --json | jq .sites
  python -m leakguard diff step10.pickle step20.pickle

exit codes: 0 whatever differs, 1 when the output could not be written to its end, 2 when a file cannot be read.
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
        "expression: a shifted line or another folder leaves them as they are. Of two memory snapshots that torch has\n"
        "made in one process: what was born, died and survived between them.",
        EPILOG,
    )
    parser.add_argument("before", metavar="A", help="a capture, a report, or a pickle of torch's")
    parser.add_argument("after", metavar="B", help="the later one")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Prints the comparison on stdout. Raises ReportError when a file cannot be read."""
    diff = _difference(options.before, options.after)
    if options.json:
        return printed(lambda: print(json.dumps(diff.to_dict(), indent=1)))
    from leakguard.render.sheet_text import print_value

    return printed(lambda: print_value(diff, sys.stdout))


def _difference(before: str, after: str) -> ReportDiff | SnapshotDiff:
    kinds = [is_torch_snapshot(path) for path in (before, after)]
    if all(kinds):
        return load_torch_snapshot(before).diff(load_torch_snapshot(after))
    if any(kinds):
        raise ReportError(
            f"{before} and {after} cannot be compared: one is a memory snapshot of torch's, one is a run"
        )
    return compare_recordings(load_recording(before), load_recording(after))
