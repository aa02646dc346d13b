"""`leakguard doctor`: whether this installation fits the torch beside it, and what can be tracked here."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from leakguard.cli.printing import printed, reading_parser
from leakguard.report import versions

EPILOG = """\
example:
  python -m leakguard doctor
  python -m leakguard doctor --json

exit codes: 0 when CPU tensors, and CUDA tensors where torch has CUDA, can be tracked; 1 when something is in the way.
"""

State = Literal["ok", "note", "bad"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line: what was looked at, and what was found. `state` is `note` for what limits and is no fault."""

    name: str
    state: State
    found: str


def add_parser(commands: Any) -> None:
    """Adds the command to the subparsers of the whole command line."""
    parser = reading_parser(
        commands,
        "doctor",
        "say whether leakguard fits this Python and torch, and what it can track",
        "Loads torch and the native modules, allocates a few tensors under watch, and says what is seen.",
        EPILOG,
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Prints the checks on stdout."""
    checks = list(all_checks())
    if options.json:
        failed = printed(lambda: print(json.dumps([asdict(check) for check in checks], indent=1)))
    else:
        failed = printed(lambda: print("\n".join(map(_line, checks))))
    return failed or int(any(check.state == "bad" for check in checks))


def all_checks() -> Iterator[Check]:
    """Each check in turn; what depends on one that failed is left out."""
    here = versions()
    yield Check("leakguard", "ok", f"{here.leakguard} in {Path(__file__).parents[1]}")
    yield Check("python", "ok", f"{here.python} ({sys.executable}), {platform.system()} {platform.machine()}")
    if os.environ.get("LEAKGUARD") == "0":
        yield Check("LEAKGUARD", "bad", "LEAKGUARD=0 is set: leakguard does nothing. Unset it to watch")
        return
    try:
        from leakguard._native import core, cuda, read_build_facts

        facts = read_build_facts()
    except ImportError as error:
        yield Check("native modules", "bad", str(error))
        return
    import torch

    yield Check("torch", "ok", f"{torch.__version__} in {Path(torch.__file__).parent}")
    yield Check("native modules", "ok", f"built for torch {facts.torch}, Python {facts.python_tag}")
    yield from _cpu(torch, core)
    yield from _cuda(torch, core, cuda)


def _cpu(torch: ModuleType, core: Any) -> Iterator[Check]:
    yield _seen("CPU tensors", lambda: core.counts("cpu")[4], lambda: torch.empty(256))


def _cuda(torch: ModuleType, core: Any, cuda: Any) -> Iterator[Check]:
    if torch.version.cuda is None:
        yield Check("CUDA tensors", "note", "this torch is built without CUDA")
        return
    if cuda is None:
        yield Check(
            "CUDA tensors", "bad", "this torch has CUDA, and leakguard was built without it: build it again"
        )
        return
    if not torch.cuda.is_available():
        yield Check(
            "CUDA tensors", "note", f"torch is built for CUDA {torch.version.cuda}; no GPU is to be had here"
        )
        return
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        yield Check("CUDA tensors", "note", f"the allocator in use is {backend}: counters only, no blocks")
        return
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        yield Check("CUDA tensors", "note", "PYTORCH_NO_CUDA_MEMORY_CACHING is set: counters only, no blocks")
        return
    device = f"cuda:{torch.cuda.current_device()}"
    name = torch.cuda.get_device_name()
    yield _seen(
        f"CUDA tensors, {name}", lambda: core.counts(device)[4], lambda: torch.empty(256, device=device)
    )


def _seen(name: str, births: Callable[[], int], allocate: Callable[[], object]) -> Check:
    """Whether an allocation under watch is seen."""
    from leakguard.guard import watch

    with watch(on_exit="never") as guard:
        before = births()
        kept = allocate()
        seen = births() - before
        del kept
        trouble = guard.report().lost.failures
    if seen > 0 and not trouble:
        return Check(name, "ok", "tracked")
    return Check(
        name, "bad", "an allocation under watch was not seen: another tool may hold torch's allocator"
    )


def _line(check: Check) -> str:
    mark = {"ok": "ok  ", "note": "note", "bad": "BAD "}[check.state]
    return f"{mark}  {check.name:<15} {check.found}".replace("\n", "\n" + " " * 22)
