"""`leakguard bisect`: which guarded part of a script makes it leak, by runs with some of them off."""

from __future__ import annotations

import argparse
import signal
import sys
import types
from typing import Any

from leakguard import report_file
from leakguard.bisection import METHODS, search
from leakguard.cli.target import Target, TargetError, split_arguments
from leakguard.trials import FreshTrials, Stopped

USAGE = """leakguard bisect [--method {halves,each}] [--timeout SECONDS] [--json FILE] SCRIPT [ARGS...]
       leakguard bisect [...] -m MODULE [ARGS...]"""

EXITS = {"found": 0, "undecided": 1, "no-components": 2, "outside": 3, "no-leak": 4}

EPILOG = """\
The script guards its parts, each with a name of its own:

  if leakguard.component("augment"):
      batch = augment(batch)

Outside a bisect component() is always true. A part may be anything that can be left out.

examples:
  python -m leakguard bisect train.py --epochs 1
  python -m leakguard bisect --method each --timeout 120 --json bisect.json -m package.train

exit codes:
  0  the culprit is named, or the parts that leak only together
  1  it could not be told: a trial that was needed failed, or was too short
  2  there is nothing to run, the script asks for no component, or FILE cannot be written
  3  it leaks with all components off: the culprit is outside of them
  4  it does not leak with all of them on
  128 and more: a signal ended it (130: Ctrl-C), and the trial with it
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = commands.add_parser(
        "bisect",
        help="find the part of a script that leaks, by runs with parts of it off",
        description="Runs SCRIPT again and again, each time afresh and with other parts of it off, until it is known\n"
        "which of them leaks, or which leak only together. What the script prints is not shown.",
        usage=USAGE,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--method",
        choices=METHODS,
        default="halves",
        help="halves: as few trials as can be; each: every part off once, with the rest on (default: halves)",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        help="end a trial after so long; its report counts if it has come about as far as the first one",
    )
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Runs the trials and prints the table as it goes. Raises ReportError when FILE cannot be written."""
    target = split_arguments(options.module, options.script)
    if target is None:
        print(
            "leakguard: there is no SCRIPT to run, and no -m MODULE; see leakguard bisect --help",
            file=sys.stderr,
        )
        return 2
    try:
        target.check()
    except TargetError as error:
        print(f"leakguard: {error}", file=sys.stderr)
        return 2
    if options.json is not None:
        report_file.check_writable(options.json)
    from leakguard.cli.bisect_table import Table  # other commands do without what draws it

    with _Signals() as signals, Table(target, options.method) as table:
        try:
            trials = FreshTrials(_words(target), timeout=options.timeout, stopped=lambda: signals.number != 0)
            result = search(trials, target.name, method=options.method, watcher=table)
        except Stopped:
            table.interrupted()
            return 128 + signals.number
        table.finish(result)
    if options.json is not None:
        report_file.write(options.json, result.to_dict())
    return EXITS[result.status]


def _words(target: Target) -> list[str]:
    return [*(["-m"] if target.is_module else ["--"]), target.name, *target.arguments]


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no time that a trial could take")
    return seconds


class _Signals:
    """While on, a signal that would end this process is kept in `number`: whoever waits for a trial sees it there, and
    no signal can come between the start of a process and the note that it has been started."""

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> _Signals:
        ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        self._before = {
            number: signal.signal(number, self._keep)
            for number in ending
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _keep(self, number: int, frame: types.FrameType | None) -> None:
        self.number = number
