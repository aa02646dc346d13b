"""`leakguard html`: a saved report as one page. Needs no torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from leakguard import report_file
from leakguard.cli.printing import printed
from leakguard.recording import load_recording

EPILOG = """\
examples:
  python -m leakguard html report.json                          writes report.html
  python -m leakguard html report.json -o page.html --no-source
  python -m leakguard html before.json --diff after.json -o changes.html

The page is one file: it opens offline, loads nothing, and can be sent to anybody.

exit codes: 0 the page is written, 1 when stdout was closed before its end, 2 when FILE cannot be read or the page
cannot be written.
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = commands.add_parser(
        "html",
        help="write a saved report as a page",
        description="Writes what FILE holds as one HTML page: verdict, steps, findings, live memory.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="the report")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="where to write the page, - for stdout (default: FILE as .html)"
    )
    parser.add_argument(
        "--no-source",
        action="store_true",
        help="leave out source lines, expressions, folders and the command, for sharing",
    )
    parser.add_argument(
        "--diff", metavar="OTHER", help="a later run: the page is about it, and shows what differs from FILE"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Writes the page. Raises ReportError when a file cannot be read or the page cannot be written."""
    recording = load_recording(options.file)
    before = None
    if options.diff is not None:
        before, recording = recording, load_recording(options.diff)
    from leakguard.render.html import to_html

    page = to_html(recording, before=before, source=not options.no_source)
    if options.output == "-":
        return printed(lambda: sys.stdout.write(page))
    out = Path(options.output or Path(options.file).with_suffix(".html"))
    report_file.write_text(out, page)
    return printed(lambda: print(f"saved {out}"))
