"""What the reading commands share: their parsers, and output that a closed pipe ends quietly."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any


def reading_parser(commands: Any, name: str, summary: str, description: str, epilog: str) -> Any:
    """The parser of a command that reads reports, with the option that all of them have."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    return parser


def printed(write: Callable[[], object]) -> int:
    """0 when `write` has printed all of it on stdout, 1 when the reader had seen enough: a pager that has been left,
    or `head`."""
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
