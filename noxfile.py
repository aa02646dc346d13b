"""The project's tasks, as nox sessions; ./dev is the way to start them.

The sessions make no environment of nox's own: tools/venvs.py keeps one for each torch version, since a CUDA
build of torch takes gigabytes and every task can share it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))

from tools import lint as lint_checks
from tools import suites

nox.options.default_venv_backend = "none"


def _finish(session: nox.Session, outcome: suites.Outcome) -> None:
    print("\n" + "\n".join(outcome.lines), flush=True)
    if outcome.failed:
        session.error("not everything passed")


@nox.session
def demo(session: nox.Session) -> None:
    """Trains a leaking loop on the device there is and prints the verdict."""
    venv = suites.torch_venv("2.13").ensure("bench")
    venv.install_leakguard()
    venv.run(venv.python, "-m", "leakguard", "run", *(session.posargs or ["examples/quickstart.py"]))


@nox.session
def test(session: nox.Session) -> None:
    """Every test that this machine can run: [PART...] [--long] [arguments for the test runner]."""
    arguments = list(session.posargs)
    long = "--long" in arguments
    if long:
        arguments.remove("--long")
    parts = [word for word in arguments if word in suites.PARTS]
    rest = [word for word in arguments if word not in suites.PARTS]
    _finish(session, suites.run(parts or suites.PARTS, long, rest))


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, structure, spelling."""
    _finish(session, lint_checks.run(suites.torch_venv("2.13").ensure("lint")))


@nox.session(name="format")
def reformat(session: nox.Session) -> None:
    """Puts Python and C++ files into the project's format."""
    lint_checks.reformat(suites.torch_venv("2.13").ensure("lint"))


@nox.session
def bench(session: nox.Session) -> None:
    """What watching costs, measured on this machine."""
    if "cuda" in session.posargs:
        suites.bench_cuda(session.posargs)
        return
    venv = suites.torch_venv("2.13").ensure("bench")
    venv.install_leakguard()
    venv.run(venv.python, "benchmarks/run.py", *session.posargs)
