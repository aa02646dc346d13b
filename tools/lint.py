"""The parts of `./dev lint`, and `./dev format`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tools.stamps import ROOT, Stamp
from tools.suites import CannotRun, Outcome, cmake_build
from tools.venvs import DEV, Venv

STUBTEST = "import sys, torch; from mypy.stubtest import main; sys.exit(main())"
ALLOWLIST = "tools/stubtest_allowlist.txt"


def tracked(*patterns: str) -> list[str]:
    """Files of the project that match, also those not yet added to git; paths from the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return sorted({line for line in listed.splitlines() if (ROOT / line).is_file()})


def cxx_files() -> list[str]:
    """Every C and C++ file of the project."""
    return tracked("*.cpp", "*.c", "*.h")


def stubtest(venv: Venv) -> None:
    """The hand-written stubs against the modules that were built."""
    stubs = [f"leakguard.{file.stem}" for file in sorted((ROOT / "python" / "leakguard").glob("_c*.pyi"))]
    built = venv.ask("import leakguard, os; print(*os.listdir(os.path.dirname(leakguard.__file__)))").split()
    modules = [
        name for name in stubs if any(file.startswith(f"{name.split('.')[1]}.cpython") for file in built)
    ]
    if not modules:
        raise CannotRun("no native module was built")
    # torch first: the modules need its libraries and do not look for them themselves.
    venv.run(venv.python, "-c", STUBTEST, "--concise", "--allowlist", ALLOWLIST, *modules)


def clang_tidy(venv: Venv) -> None:
    """clang-tidy over the sources that changed since they last passed; torch's headers make it slow."""
    folder = Path(cmake_build_database(venv))
    commands = json.loads((folder / "compile_commands.json").read_text())
    everything = [ROOT / ".clang-tidy", *(ROOT / name for name in tracked("csrc/*.h"))]

    def check(file: Path) -> subprocess.CompletedProcess[str] | None:
        stamp = Stamp(DEV / "stamps" / "clang-tidy" / file.relative_to(ROOT), [file, *everything])
        if stamp.is_fresh():
            return None
        command = [venv.tool("clang-tidy"), "-p", str(folder), "--quiet", "--warnings-as-errors=*", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        if done.returncode == 0:
            stamp.set()
        return done

    # Not the bindings: they hold no logic, and pybind11 under torch's headers takes longer than all the rest.
    rooms = [ROOT / "csrc" / room for room in ("core", "interpreter", "torch", "program", "cuda", "owners")]
    sources = sorted({Path(entry["file"]) for entry in commands if Path(entry["file"]).parent in rooms})
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        failures = [done for done in pool.map(check, sources) if done is not None and done.returncode != 0]
    for done in failures:
        print(done.stdout, flush=True)
    if failures:
        raise subprocess.CalledProcessError(1, "clang-tidy")


def cmake_build_database(venv: Venv) -> str:
    """Configures a build of everything for its compile commands and generated files; returns its folder."""
    return cmake_build(venv, "clang-tidy", "-DLEAKGUARD_BUILD_TESTS=ON", target="leakguard_generated")


def checks(venv: Venv) -> Iterator[tuple[str, list[str]]]:
    """Name and command of each check that is one command."""
    yield "ruff", [venv.tool("ruff"), "check", "."]
    yield "ruff format", [venv.tool("ruff"), "format", "--check", "."]
    yield "mypy", [venv.tool("mypy")]
    yield "import-linter", [venv.tool("lint-imports"), "--no-cache"]
    yield "codespell", [venv.tool("codespell"), *tracked()]
    yield "docs", [venv.tool("mkdocs"), "build", "--quiet", "-f", "tools/mkdocs.yml"]
    yield "clang-format", [venv.tool("clang-format"), "--dry-run", "--Werror", *cxx_files()]


def run(venv: Venv) -> Outcome:
    """Runs every check; a failure does not stop the others."""
    outcome = Outcome()
    for title, command in checks(venv):
        outcome.run(title, partial(venv.run, *command, PYTHONPATH="python", NO_MKDOCS_2_WARNING="1"))
    venv.install_leakguard()
    outcome.run("stubtest", partial(stubtest, venv))
    outcome.run("clang-tidy", partial(clang_tidy, venv))
    return outcome


def reformat(venv: Venv) -> None:
    """Puts every file into the project's format."""
    venv.run(venv.tool("ruff"), "check", "--fix-only", "--quiet", ".")
    venv.run(venv.tool("ruff"), "format", ".")
    venv.run(venv.tool("clang-format"), "-i", *cxx_files())
