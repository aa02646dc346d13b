"""`leakguard export`: a run in the formats of other tools. Needs no torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from leakguard import report_file
from leakguard.cli.printing import printed
from leakguard.exports import FORMATS, encode
from leakguard.recording import Recording, load_recording
from leakguard.report import ReportError, unwatched
from leakguard.torch_snapshot import is_torch_snapshot, load_torch_snapshot

EPILOG = """\
examples:
  python -m leakguard export run.leakguard --to pprof              writes run.pb.gz
  python -m leakguard export run.leakguard --to steps-csv -o - | column -t -s,
  python -m leakguard export snapshot.pickle --to sites-csv

formats:
  memory-viz  live memory as torch pickles it, for torch.cuda._memory_viz and pytorch.org/memory_viz
  pprof       live bytes and blocks by call site; two of them are compared by pprof -diff_base
  chrome      steps and counters of each device, for Perfetto or chrome://tracing
  steps-csv   one row a step and device
  sites-csv   one row a call site of live memory

exit codes: 0 the file is written, 1 when stdout was closed before its end, 2 when FILE cannot be read, does not tell
what the format shows, or OUT cannot be written.
"""


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = commands.add_parser(
        "export",
        help="write a run for another tool",
        description="Writes the run in a capture, or the live memory in a memory snapshot of torch's, for another\n"
        "tool.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="a capture of `run -o`, or torch's pickle")
    parser.add_argument(
        "--to", required=True, choices=list(FORMATS), metavar="FORMAT", help=", ".join(FORMATS)
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="where to write it, - for stdout (default: FILE with another ending)",
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Writes the file. Raises ReportError when FILE cannot be read or OUT cannot be written."""
    wanted = FORMATS[options.to]
    try:
        data = encode(_recording(options.file), options.to)
    except ReportError as error:
        said = str(error)
        raise ReportError(said if options.file in said else f"{options.file}: {said}") from error
    if options.output == "-":
        return printed(lambda: sys.stdout.buffer.write(data))
    out = Path(options.output or Path(options.file).with_suffix(wanted.suffix))
    if options.output is None and out == Path(options.file):
        raise ReportError(f"{out} would be written over itself: name another file with -o")
    report_file.write_bytes(out, data)
    return printed(lambda: print(f"saved {out}: {wanted.use.format(file=out)}"))


def _recording(path: str) -> Recording:
    if is_torch_snapshot(path):
        report = unwatched("a memory snapshot of torch's has no verdict", "watch the program with leakguard")
        return Recording(report=report, snapshot=load_torch_snapshot(path).memory)
    return load_recording(path)
