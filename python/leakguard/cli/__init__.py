"""The command line: one file a command, each with `add_parser` and a function from its arguments to an exit
code."""

# PYTHON_ARGCOMPLETE_OK

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from leakguard.cli import bisect, diff, doctor, explain, export, html, live, run, show, stats
from leakguard.report import ReportError, versions

COMMANDS = (run, live, show, html, explain, diff, stats, bisect, export, doctor)

EPILOG = """\
examples:
  python -m leakguard run train.py --epochs 3      watch a training script, change nothing in it
  python -m leakguard live                         see a watched run while it goes
  python -m leakguard show report.json             read a saved report again
  python -m leakguard html report.json             write it as a page
  python -m leakguard explain 9f31c0a2 report.json read one finding of it
  python -m leakguard diff before.json after.json  compare two runs
  python -m leakguard stats run.leakguard          peak, steps and call sites of a run
  python -m leakguard bisect train.py              which guarded part of a script leaks
  python -m leakguard export FILE --to pprof       write a run for another tool
  python -m leakguard doctor                       what can be tracked here, and what is in the way

exit codes: 2 for a command that makes no sense or a file that cannot be used; each command lists its own.
LEAKGUARD=0 in the environment makes leakguard do nothing at all.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. `argv` lacks the program's name; None means the real
    one."""
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:
        return _complete(parser)
    options = parser.parse_args(sys.argv[1:] if argv is None else argv)
    if options.version:
        print("leakguard", versions().leakguard)
        return 0
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        code: int = options.execute(options)
    except ReportError as error:
        print(f"leakguard: {error}", file=sys.stderr)
        return 2
    return code


def _complete(parser: argparse.ArgumentParser) -> int:
    """Answers a shell that asks for completions; with argcomplete does not return, without it there are none."""
    try:
        argcomplete = importlib.import_module("argcomplete")
    except ImportError:
        return 1
    argcomplete.autocomplete(parser)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="leakguard",
        description="Finds tensor-memory leaks in PyTorch training: which line makes them, what keeps them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser
