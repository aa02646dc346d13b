"""`leakguard run`: a script under watch, with no change in it, and the report at its end."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import Any, Protocol

from leakguard import report_file
from leakguard.cli.endings import Ending, SignalWatch, leave, release_frames, run_to_end
from leakguard.cli.target import Target, TargetError, split_arguments
from leakguard.report import Report, ReportError, unwatched

EXIT_LEAK = 3

FAILS = {"leak": ("leak",), "warning": ("leak", "warning"), "never": ()}

USAGE = """leakguard run [--json FILE] [--fail-on {leak,warning,never}] [--progress] SCRIPT [ARGS...]
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


class Guard(Protocol):
    """What this command asks of `leakguard.guard.watch`."""

    def report(self) -> Report:
        """The report on what has been seen so far; may be called from a signal handler."""

    def stop(self) -> None:
        """Ends watching."""


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
        choices=sorted(FAILS),
        default="never",
        help=f"exit with {EXIT_LEAK} when the script succeeds and the report says so (default: never)",
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
    except TargetError as error:
        print(f"leakguard: {error}", file=sys.stderr)
        return 2
    file = None if options.json is None else report_path(options.json)
    if file is not None:
        report_file.check_writable(file)
    session = Session(target, file)
    try:
        ending = session.run()
    except TargetError as error:
        print(f"leakguard: {error}", file=sys.stderr)
        return 1
    if ending.code == 0 and session.status in FAILS[options.fail_on]:
        return EXIT_LEAK
    return leave(ending)


def report_path(pattern: str) -> Path:
    """The file that `pattern` names for this process: `report.json` is `report.rank1.json` on torchrun's rank
    1."""
    rank = os.environ.get("RANK")
    filled = pattern.replace("{rank}", rank or "0").replace("{pid}", str(os.getpid()))
    path = Path(filled).absolute()
    if rank is not None and "{rank}" not in pattern and (path.is_file() or not path.exists()):
        path = path.with_name(f"{path.stem}.rank{rank}{path.suffix}")
    return path


class Session:
    """One watched run: begins to watch, runs the script, brings the report out once, whatever ends the
    script."""

    def __init__(self, target: Target, file: Path | None) -> None:
        self.status: str | None = None
        self._target = target
        self._file = file
        self._folder = os.getcwd()
        self._import_path = list(sys.path)
        self._stderr = sys.stderr
        self._guard: Guard | None = None
        self._fault: str | None = None
        self._signals = SignalWatch(self._finish)
        self._owner = os.getpid()

    def run(self) -> Ending:
        """The script's ending; by then the report is out."""
        self._begin()
        self._signals.install()
        ending = run_to_end(self._target.run)
        if os.getpid() == self._owner:  # a forked child that unwinds to here only ends
            with self._signals.postponed():
                self._finish()
        return ending

    def _begin(self) -> None:
        if os.environ.get("LEAKGUARD") == "0":
            return
        try:
            from leakguard.guard import watch

            self._guard = watch(on_exit="never", wait_for_torch=True)
        except Exception as error:
            self._fault = f"{type(error).__name__}: {error}"
            print(f"leakguard: nothing is watched, since {self._fault}", file=self._stderr)

    def _finish(self) -> None:
        report = self._make_report()
        self.status = report.status
        if self._file is not None:
            try:
                report.save(self._file)
            except ReportError as error:
                print(f"leakguard: {error}", file=self._stderr)
        if self._guard is not None or self._fault is not None:
            self._show(report)
        if self._guard is not None:
            with contextlib.suppress(Exception):  # the process ends; there is nothing left to protect
                self._guard.stop()

    def _make_report(self) -> Report:
        if self._guard is None and self._fault is None:
            return unwatched("leakguard is switched off by LEAKGUARD=0", "unset LEAKGUARD and run it again")
        try:
            if self._guard is not None:
                try:
                    return self._guard.report()
                except MemoryError:
                    release_frames()
                    return self._guard.report()
        except KeyboardInterrupt:
            return unwatched("the report was interrupted", "run it again and let the report be made")
        except Exception as error:
            self._fault = f"{type(error).__name__}: {error}"
        return unwatched(
            f"leakguard itself failed: {self._fault}",
            "the script ran as ever; please report this failure with the line above",
            failures=1,
        )

    def _show(self, report: Report) -> None:
        """The script may have left a broken stream, a path with modules of our names, or no memory: none may
        hurt."""
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        import_path, sys.path[:] = list(sys.path), self._import_path
        try:
            from leakguard.render.text import print_report

            print_report(report, self._stderr, folder=self._folder, brief=True, saved_as=self._file)
        except Exception:
            with contextlib.suppress(Exception):
                print(f"{report.status.upper()}  {report.why}", file=self._stderr)
                print(f"next  {report.next}", file=self._stderr, flush=True)
        finally:
            sys.path[:] = import_path
