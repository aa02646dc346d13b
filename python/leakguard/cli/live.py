"""`leakguard live`: a watched run, seen while it goes. Needs no torch."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakguard import live_files
from leakguard.cli.printing import printed, reading_parser
from leakguard.live_view import LiveView, look
from leakguard.report import ReportError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

EPILOG = """\
examples:
  python -m leakguard live                     the watched processes of yours that run now
  python -m leakguard live 12345               one of them, by its process number
  python -m leakguard live run.leakguard       the capture file of a run, here or on another machine
  python -m leakguard live --once | head       one look, as plain text

exit codes: 0, 1 when nothing is watched or the output could not be written to its end, 2 when the process or
the file cannot be read.
A process tells of itself from about its first second on; with LEAKGUARD_LIVE=0 in its environment it does not.
"""

WHOLE = 40
"""Lines of a page that is printed."""

NOBODY = (
    "no process of yours is watched now. Start one with leakguard run, or leakguard.watch():\n"
    "it shows when a step has ended after its first second."
)


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = reading_parser(
        commands,
        "live",
        "see a run while it goes",
        "Shows the verdict so far, memory, the newest steps and the call sites that grow, and keeps it up to date in\n"
        "a terminal, until the run ends or Ctrl-C. The run is neither slowed nor stopped by it.",
        EPILOG,
    )
    parser.add_argument("target", nargs="?", metavar="PID|FILE", help="a process, or a capture of `run -o`")
    parser.add_argument("--once", action="store_true", help="one look, and no more")
    parser.add_argument(
        "--interval", type=_seconds, default=1.0, metavar="SECONDS", help="from look to look (default: 1)"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Shows the run on stdout. Raises ReportError when it cannot be read."""
    paths = [_path(options.target)] if options.target else [run.path for run in live_files.live_runs()]
    views = [look(paths[0])] if options.target else _looks(paths)
    if not views:
        print(f"leakguard: {NOBODY}", file=sys.stderr)
        return 1
    if options.json:
        plain = [view.to_dict() for view in views]
        return printed(lambda: print(json.dumps(plain[0] if options.target else plain, indent=1)))
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    if options.once or not console.is_terminal or console.is_dumb_terminal:
        return printed(lambda: console.print(_page(views, console.width, WHOLE)))
    return _follow(console, paths, views, options.interval)


def _follow(console: Console, paths: list[Path], views: list[LiveView], interval: float) -> int:
    """One screen, drawn anew; what it was at last stays in the terminal."""
    from rich.live import Live

    try:
        with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as screen:
            while True:
                screen.update(_page(views, console.width, console.height - 1), refresh=True)
                if not any(view.running for view in views):
                    break
                time.sleep(interval)
                views = _looks(paths) or _ended(views)
    except KeyboardInterrupt:
        pass
    console.print(_page(views, console.width, WHOLE))
    return 0


def _looks(paths: list[Path]) -> list[LiveView]:
    """What is there of them: a process that has ended has taken its file away. Raises ReportError for one that cannot
    be read."""
    views = []
    for path in paths:
        try:
            views.append(look(path))
        except ReportError:
            if path.exists():
                raise
    return views


def _ended(views: list[LiveView]) -> list[LiveView]:
    return [replace(view, running=False) for view in views]


def _page(views: list[LiveView], width: int, height: int) -> Text:
    from leakguard.render.live_page import live_page, overview_page
    from leakguard.render.text import working_folder

    encoding, folder = getattr(sys.stdout, "encoding", None), working_folder()
    if len(views) == 1:
        return live_page(views[0], width, height, folder, encoding)
    return overview_page(views, width, height, encoding)


def _path(target: str) -> Path:
    """The file of a process, or the one that is named. Raises ReportError when there is none."""
    if target.isdigit() and not os.path.exists(target):
        path = live_files.live_path(int(target))
        if path is None:
            raise ReportError(
                f"process {target} tells nothing: no watched process of yours, or in its first second."
            )
        return path
    return Path(target)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError("between 0.05 and 3600 seconds")
    return value
