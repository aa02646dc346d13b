"""`leakguard run`: a script under watch, with no change in it, and the report at its end."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from leakguard import report_file
from leakguard.cli.endings import leave
from leakguard.cli.session import Session
from leakguard.cli.target import TargetError, split_arguments

EXIT_LEAK = 3

FAILS = {"leak": ("leak",), "warning": ("leak", "warning"), "never": ()}

USAGE = """leakguard run [--json FILE] [--fail-on {leak,warning,never}] [--detail {lines,ops}]
              [--progress] SCRIPT [ARGS...]
       leakguard run [...] -m MODULE [ARGS...]"""

EPILOG = """\
examples:
  python -m leakguard run train.py --epochs 3
  python -m leakguard run --json report.json --fail-on leak -m package.train
  torchrun --nproc-per-node 2 -m leakguard run --json report.json train.py    (one report a rank)

exit codes:
  the script's own
  2  there is nothing to run, or FILE cannot be written; said before the script begins
  3  the script succeeded and --fail-on applies
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = commands.add_parser(
        "run",
        help="run a script and report its leaks",
        description="Runs SCRIPT as python would, then reports on stderr what it leaks.",
        usage=USAGE,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write the report as JSON; {rank} and {pid} are filled in, torchrun's rank is added by itself",
    )
    parser.add_argument(
        "--fail-on",
        choices=list(FAILS),
        default="never",
        help=f"exit with {EXIT_LEAK} when the script succeeds and the report says so (default: never)",
    )
    parser.add_argument(
        "--detail",
        choices=["lines", "ops"],
        default="lines",
        help="ops: also name the operator that made each block, which makes the run slower (default: lines)",
    )
    parser.add_argument("--progress", action="store_true", help="a line on stderr while the script runs")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Runs the script to its end and returns the exit code. Raises ReportError when FILE cannot be
    written."""
    target = split_arguments(options.module, options.script)
    if target is None:
        print(
            "leakguard: there is no SCRIPT to run, and no -m MODULE; see leakguard run --help",
            file=sys.stderr,
        )
        return 2
    try:
        target.check()
        file = None if options.json is None else report_file.report_path(options.json)
        if file is not None:
            report_file.check_writable(file)
        session = Session(target, file, progress=options.progress, detail=options.detail)
        ending = session.run()
    except TargetError as error:
        print(f"leakguard: {error}", file=sys.stderr)
        return error.exit_code
    if ending.code == 0 and session.status in FAILS[options.fail_on]:
        return EXIT_LEAK
    return leave(ending)
