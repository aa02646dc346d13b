"""`leakguard run`: a script under watch, with no change in it, and the report at its end."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from leakguard import report_file
from leakguard.capture_file import check_writable, is_capture_name
from leakguard.cli.endings import leave
from leakguard.cli.session import Session
from leakguard.cli.target import TargetError, split_arguments
from leakguard.report import ReportError

EXIT_LEAK = 3

FAILS = {"leak": ("leak",), "warning": ("leak", "warning"), "never": ()}

USAGE = """leakguard run [-o FILE] [--json FILE] [--html FILE]
              [--fail-on {leak,warning,never}] [--detail {lines,ops}] [--progress] SCRIPT [ARGS...]
       leakguard run [...] -m MODULE [ARGS...]"""

EPILOG = """\
examples:
  python -m leakguard run train.py --epochs 3
  python -m leakguard run -o run.leakguard train.py                           (steps and report, as it goes)
  python -m leakguard run --json report.json --fail-on leak -m package.train
  python -m leakguard run --html report.html train.py                         (a page to look at)
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
        "-o",
        "--output",
        metavar="FILE",
        help="write the run as it goes: a capture file when the name ends in .leakguard, .lg or .sqlite, "
        "otherwise as --json; {rank} and {pid} as there",
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write the report as JSON; {rank} and {pid} are filled in, torchrun's rank is added by itself",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="write a page to look at: verdict, steps, findings, live memory; FILE as for --json",
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
        file, page, capture = _files(options)
        session = Session(
            target, file, page=page, progress=options.progress, detail=options.detail, capture=capture
        )
        ending = session.run()
    except TargetError as error:
        print(f"leakguard: {error}", file=sys.stderr)
        return error.exit_code
    if ending.code == 0 and session.status in FAILS[options.fail_on]:
        return EXIT_LEAK
    return leave(ending)


def _files(options: argparse.Namespace) -> tuple[Path | None, Path | None, str | None]:
    """The files of report and page, and the capture's as it was named. Raises ReportError when one cannot be
    written."""
    report, capture = options.json, options.output
    if capture is not None and not is_capture_name(capture):
        if report is not None:
            raise ReportError(
                f"{capture} and {report} cannot both be the report: -o takes a capture, *.leakguard."
            )
        report, capture = capture, None
    for name in (report, options.html):
        if name is not None:
            report_file.check_writable(report_file.report_path(name))
    if capture is not None:
        check_writable(report_file.report_path(capture))
    file, page = (None if name is None else report_file.report_path(name) for name in (report, options.html))
    return file, page, capture
