"""The report: what a watched run says about its memory, as a plain value (schema 1).

A report is made once, at the end of `Guard.report()`, and only read from then on. It holds no tensor and no
module, and it is saved, loaded and shown without torch and without the process that made it. Sizes are bytes;
rates are bytes or blocks per training step. A field that cannot be known is None, never a guess. Fields may
be added to schema 1; none is renamed or dropped without raising SCHEMA.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from leakguard import capture_file, report_file
from leakguard._version import __version__
from leakguard.records import RecordError, from_plain, to_plain
from leakguard.report_file import HOW_TO_MAKE, ReportError
from leakguard.shown import as_printed

SCHEMA = 1

__all__ = [
    "Advice",
    "DeviceUsage",
    "Example",
    "Finding",
    "Link",
    "Lost",
    "Overhead",
    "Place",
    "Report",
    "ReportError",
    "Steps",
    "Versions",
    "is_leak",
    "is_warning",
    "load",
    "not_begun",
    "not_made",
    "status_of",
    "unwatched",
    "versions",
]

Status = Literal["leak", "warning", "clean", "inconclusive"]
Verdict = Literal["growing", "waiting-for-gc", "bounded", "by-design", "no-owner"]
Source = Literal["explicit", "optimizer", "backward", "forward"]

LEAKS: frozenset[Verdict] = frozenset({"growing", "no-owner"})

MIN_STEPS = 8
"""Steps after warm-up without which nothing is said about growth."""

FLOOR_BYTES_PER_STEP = 1.0
FLOOR_BLOCKS_PER_STEP = 0.01
"""A finding below both is noise: less than one byte a step, and less than one block in a hundred steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The training steps that were found. `source` is None when none was."""

    count: int = 0
    warmup: int = 0
    source: Source | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceUsage:
    """One device, or the host. `fragmentation` is 1 - largest free piece / free bytes, of the reserved
    memory."""

    device: str
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_bytes: int | None = None
    bytes_per_step: float | None = None
    fragmentation: float | None = None
    outside_allocator_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The user's own line that made a block. `via` is the library frame when the block was made inside one,
    as `file:line in function`; `op` the operator or, in backward, the autograd node."""

    file: str | None = None
    line: int | None = None
    function: str | None = None
    expression: str | None = None
    op: str | None = None
    module: str | None = None
    phase: str = "other"
    via: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One reference on the way from a root to a tensor. `name` is the bare identifier, None for an index;
    `type` says what the reference leads to, such as `list, 38 items`."""

    edge: str
    name: str | None = None
    type: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One of the tensors of a finding."""

    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Blocks that one line keeps making and one holder keeps alive. `bytes` is what the allocator set aside
    for them; `retained_bytes` what the holder gives back when it lets go, 0 while no holder is known;
    `also_born_at` other lines whose blocks the same holder keeps, counted in with this one's."""

    fingerprint: str
    verdict: Verdict
    cause: str = "unknown"
    title: str
    why: str = ""
    fix: str | None = None
    device: str
    bytes: int
    blocks: int
    bytes_per_step: float = 0.0
    blocks_per_step: float = 0.0
    first_step: int | None = None
    last_step: int | None = None
    category: str = "unknown"
    allocated_at: Place = field(default_factory=Place)
    root: str = ""
    retained_by: tuple[Link, ...] = ()
    retained_bytes: int = 0
    example: Example | None = None
    also_born_at: tuple[Place, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """Something that would save memory, leak or no leak."""

    topic: str
    text: str
    saves_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overhead:
    """What leakguard itself has cost: seconds, their share of the watched time, and host memory."""

    seconds: float = 0.0
    fraction: float = 0.0
    host_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """What could not be seen; all zero in a healthy run. `failures` counts errors inside leakguard itself."""

    events: int = 0
    unknown_births: int = 0
    uncovered_devices: int = 0
    failures: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The whole verdict on a run. `findings` are sorted, most bytes per step first."""

    schema: int = SCHEMA
    leakguard: str = ""
    torch: str = ""
    python: str = ""
    status: Status
    why: str
    next: str
    steps: Steps = field(default_factory=Steps)
    devices: tuple[DeviceUsage, ...] = ()
    findings: tuple[Finding, ...] = ()
    advice: tuple[Advice, ...] = ()
    overhead: Overhead = field(default_factory=Overhead)
    lost: Lost = field(default_factory=Lost)

    def to_dict(self) -> dict[str, Any]:
        """The report in plain dictionaries, lists, strings and numbers, as it is saved."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, origin: str = "the report") -> Report:
        """The report that `to_dict` described. Raises ReportError, naming `origin`, when `data` is none."""
        schema = data.get("schema") if isinstance(data, Mapping) else None
        if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
            raise ReportError(f"{origin} is not a leakguard report: it has no schema number. {HOW_TO_MAKE}")
        if schema > SCHEMA:
            writer = data.get("leakguard") or "a newer version"
            raise ReportError(
                f"{origin} has schema {schema} and this leakguard reads up to schema {SCHEMA}: "
                f"show it with the leakguard that wrote it ({writer}), or a later one."
            )
        try:
            return from_plain(cls, data)
        except RecordError as error:
            raise ReportError(f"{origin} is damaged at {error}. {HOW_TO_MAKE}") from error

    def save(self, path: str | Path) -> None:
        """Writes the report as JSON, whole or not at all. Raises ReportError when `path` cannot be
        written."""
        report_file.write(path, self.to_dict())

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        from leakguard.render.text import to_text

        return to_text(self, encoding=getattr(sys.stdout, "encoding", None))

    def _repr_html_(self) -> str:
        from leakguard.render.notebook import report_html

        return report_html(self)


def load(path: str | Path) -> Report:
    """The report saved at `path`, or the last one of the capture file there; of a run that goes on or was killed, what
    was known so far. Raises ReportError when there is none, or one that cannot be read."""
    if capture_file.is_capture(path):
        with capture_file.opened(path) as capture:
            return Report.from_dict(capture_file.report_in(capture), origin=str(path))
    return Report.from_dict(report_file.read(path), origin=str(path))


def is_leak(finding: Finding) -> bool:
    """Whether this finding alone makes the run a leak."""
    return finding.verdict in LEAKS and (
        finding.bytes_per_step >= FLOOR_BYTES_PER_STEP or finding.blocks_per_step >= FLOOR_BLOCKS_PER_STEP
    )


def is_warning(finding: Finding) -> bool:
    """Whether it makes the run a warning: garbage that waits for the collector, or a bounded holder that is
    still filling. One at its limit grows no more, so both its rates are zero."""
    still_filling = finding.bytes_per_step > 0 or finding.blocks_per_step > 0
    return finding.verdict == "waiting-for-gc" or (finding.verdict == "bounded" and still_filling)


def status_of(findings: Iterable[Finding], steps: Steps, *, doubtful: Collection[str] = ()) -> Status:
    """The status that follows from the findings.

    `doubtful` holds the fingerprints of suspects that lost events have touched: what they say is no evidence,
    and unless another finding is a leak beyond doubt, they leave the run inconclusive.
    """
    if steps.count - steps.warmup < MIN_STEPS:
        return "inconclusive"
    sure = [finding for finding in findings if finding.fingerprint not in doubtful]
    if any(map(is_leak, sure)):
        return "leak"
    if doubtful:
        return "inconclusive"
    return "warning" if any(map(is_warning, sure)) else "clean"


class Versions(NamedTuple):
    """The versions a report carries; torch's is empty in a process that has not imported it."""

    leakguard: str
    torch: str
    python: str


def versions() -> Versions:
    """The versions of this process. Imports nothing that is not imported yet."""
    torch = str(getattr(sys.modules.get("torch"), "__version__", ""))
    return Versions(__version__, torch, platform.python_version())


def unwatched(why: str, next: str, *, failures: int = 0) -> Report:
    """The report on a run of which nothing was seen."""
    here = versions()
    return Report(
        leakguard=here.leakguard,
        torch=here.torch,
        python=here.python,
        status="inconclusive",
        why=why,
        next=next,
        lost=Lost(failures=failures),
    )


def not_begun(failures: Sequence[str]) -> Report:
    """The report of a watch that waited for torch, and has not begun."""
    if failures:
        return unwatched(
            f"watching could not begin: {failures[0]}",
            "python -m leakguard run needs a torch that it was built for",
            failures=len(failures),
        )
    return unwatched("the program never imported torch", "watch a program that does")


def not_made(failures: Sequence[str]) -> Report:
    """The report of a watch whose report could not be made."""
    return unwatched(
        f"leakguard itself failed: {failures[-1]}",
        "please report this failure; the program is not to blame",
        failures=len(failures),
    )
