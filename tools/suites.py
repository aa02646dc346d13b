"""The parts of `./dev test`.

A part that this machine cannot run says why; LEAKGUARD_FAIL_ON_SKIP=1 makes that a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from tools.stamps import ROOT
from tools.venvs import DEV, Venv, interpreters

BUILD = DEV / "build"
NEWEST = "2.14"
OLDER = ("2.11", "2.12")
TORCH_DEPENDENT = (
    "tests/python/cuda",
    *(f"tests/python/test_{name}_holders.py" for name in ("graph", "tensor")),
)
"""What differs from one torch minor to the next is behind these."""

PARTS = ("core", "interpreter", "cpu", "fake-cuda")


class CannotRun(Exception):
    """This machine lacks something; the message says what, and the command that brings it."""


@dataclass
class Outcome:
    """What became of the parts, in order."""

    lines: list[str] = field(default_factory=list)
    failed: bool = False

    def run(self, title: str, part: Callable[[], None]) -> None:
        """Runs one part; a failure is noted and does not stop the others."""
        print(f"\n=== {title}", flush=True)
        try:
            part()
        except CannotRun as reason:
            strict = os.environ.get("LEAKGUARD_FAIL_ON_SKIP") == "1"
            self.failed |= strict
            self.lines.append(f"{'FAILED ' if strict else 'skipped'}  {title}: {reason}")
        except subprocess.CalledProcessError as error:
            self.failed = True
            self.lines.append(f"FAILED   {title} (exit status {error.returncode})")
        else:
            self.lines.append(f"passed   {title}")


def torch_venv(minor: str) -> Venv:
    """The environment with this torch, and with what the tests need."""
    return Venv(f"torch-{minor}").ensure(f"torch-{minor}", "test")


def bare_venv(minor: str, interpreter: str) -> Venv:
    """An environment without torch, for the rooms below it."""
    return Venv(f"python-{minor}", interpreter).ensure("interpreter")


def own_minor() -> str:
    """The minor version of the Python that runs the tasks."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def cmake_build(venv: Venv, folder: str, *options: str, target: str = "all") -> str:
    """Configures and builds a target in .dev/build/FOLDER with the venv's CMake; returns its path."""
    path = str(BUILD / folder)
    jobs = str(min(2, os.cpu_count() or 1))
    venv.run_quietly(
        venv.tool("cmake"), "-S", ".", "-B", path, "-G", "Ninja",
        f"-DPython_EXECUTABLE={venv.python}", *options,
    )  # fmt: skip
    venv.run_quietly(venv.tool("cmake"), "--build", path, "--target", target, "-j", jobs)
    return path


def core(sanitizer: str, arguments: Sequence[str]) -> None:
    """The core's C++ tests, plain ("") or under a sanitizer."""
    if not any(file.name != "catch_main.cpp" for file in (ROOT / "tests" / "cpp").glob("*.cpp")):
        raise CannotRun("tests/cpp has no test")
    venv = bare_venv(own_minor(), sys.executable)
    if not _has_catch2():
        raise CannotRun("no Catch2: apt-get install catch2")
    folder = cmake_build(
        venv,
        f"core-{sanitizer.replace(',', '-') or 'plain'}",
        "-DLEAKGUARD_BUILD=core",
        "-DLEAKGUARD_BUILD_TESTS=ON",
        "-DLEAKGUARD_WARNINGS_AS_ERRORS=ON",
        f"-DLEAKGUARD_SANITIZE={sanitizer}",
    )
    command = [f"{folder}/tests/cpp/leakguard_core_tests", *arguments]
    if sanitizer == "thread" and _runs("setarch", "-R", "true"):
        command = [
            "setarch",
            "-R",
            *command,
        ]  # ThreadSanitizer cannot place its shadow in a widely randomised space
    venv.run(*command, UBSAN_OPTIONS="print_stacktrace=1")


def interpreter(minor: str, path: str | None, arguments: Sequence[str]) -> None:
    """The interpreter room alone, without torch, on one Python minor."""
    if path is None:
        raise CannotRun(
            f"no Python {minor} with headers: apt-get install python{minor}-dev, or pyenv install {minor}"
        )
    if not any((ROOT / "tests" / "interpreter").glob("test_*.py")):
        raise CannotRun("tests/interpreter has no test")
    venv = bare_venv(minor, path)
    folder = cmake_build(
        venv,
        f"interpreter-{minor}",
        "-DLEAKGUARD_BUILD=interpreter",
        "-DLEAKGUARD_BUILD_TESTS=ON",
        "-DLEAKGUARD_WARNINGS_AS_ERRORS=ON",
    )
    paths = _with_paths(arguments, "tests/interpreter")
    venv.run(venv.python, "-m", "pytest", "-q", *paths, PYTHONPATH=f"{folder}/modules")


def test_modules(venv: Venv, torch: str) -> str:
    """Builds the modules that tests alone import, for this torch; returns their folder."""
    folder = cmake_build(
        venv,
        f"test-modules-{torch}",
        "-DLEAKGUARD_BUILD_TESTS=ON",
        "-DLEAKGUARD_CUDA=OFF",
        target="leakguard_test_modules",
    )
    return f"{folder}/modules"


def cpu(arguments: Sequence[str]) -> None:
    """The Python suite on torch 2.13, on the CPU whatever the machine has."""
    venv = torch_venv("2.13")
    venv.install_leakguard()
    print(venv.ask("import torch; print('torch', torch.__version__, 'with any GPU hidden')"), flush=True)
    venv.run(
        *_pytest(venv),
        *_with_paths(arguments, "tests/python"),
        CUDA_VISIBLE_DEVICES="",
        PYTHONPATH=test_modules(venv, "2.13"),
    )


def fake_cuda(torch: str, arguments: Sequence[str], *paths: str) -> None:
    """Tests on a CUDA build of torch over the fake CUDA runtime: no GPU is needed or used."""
    if not (ROOT / "tests" / "fakecuda" / "CMakeLists.txt").is_file():
        raise CannotRun("tests/fakecuda is not in this tree")
    venv = torch_venv(torch)
    if venv.ask("import torch.version; print(torch.version.cuda)") == "None":
        raise CannotRun(f"pip gave a torch {torch} without CUDA: install one from an index with CUDA builds")
    venv.install_leakguard()
    venv.run(
        venv.python,
        "tests/fakecuda/launch.py",
        *_pytest(venv),
        *_with_paths(arguments, *paths),
        FAKECUDA_BUILD=str(BUILD / ("fakecuda" if torch == NEWEST else f"fakecuda-{torch}")),
        PYTHONPATH=test_modules(venv, torch),
    )


def bench_cuda(arguments: Sequence[str]) -> None:
    """What watching costs over the fake CUDA runtime."""
    venv = torch_venv(NEWEST)
    venv.install_leakguard()
    folder = cmake_build(venv, f"bench-{NEWEST}", "-DLEAKGUARD_BUILD_TESTS=ON", target="_pairs")
    venv.run(
        venv.python,
        "tests/fakecuda/launch.py",
        venv.python,
        "benchmarks/run.py",
        *arguments,
        FAKECUDA_BUILD=str(BUILD / "fakecuda"),
        PYTHONPATH=f"{folder}/modules",
    )


def run(parts: Sequence[str], long: bool, arguments: Sequence[str]) -> Outcome:
    """Runs the named parts; `arguments` go to the test runner of each."""
    outcome = Outcome()
    pytest = [*(["--long"] if long else []), *arguments]
    if "core" in parts:
        for sanitizer in ("", "address,undefined", "thread"):
            outcome.run(f"core, {sanitizer or 'plain'}", partial(core, sanitizer, arguments))
    if "interpreter" in parts:
        for minor, path in interpreters().items():
            outcome.run(f"interpreter, Python {minor}", partial(interpreter, minor, path, pytest))
    if "cpu" in parts:
        outcome.run("Python suite, torch 2.13, CPU", partial(cpu, pytest))
    if "fake-cuda" in parts:
        paths = ("tests/fakecuda", "tests/python")
        outcome.run(f"Python suite, torch {NEWEST}, fake CUDA", partial(fake_cuda, NEWEST, pytest, *paths))
        for minor in OLDER if long else ():
            title = f"CUDA and holders, torch {minor}, fake CUDA"
            outcome.run(title, partial(fake_cuda, minor, arguments, *TORCH_DEPENDENT))
    return outcome


def _pytest(venv: Venv) -> list[str]:
    """pytest on every core, up to four; each file's tests stay in one process and in order."""
    workers = str(min(4, os.cpu_count() or 1))
    return [venv.python, "-m", "pytest", "-q", "-n", workers, "--dist", "loadfile"]


def _with_paths(arguments: Sequence[str], *paths: str) -> list[str]:
    """The arguments, after these paths unless they name files themselves."""
    named = any((ROOT / word.split("::")[0]).exists() for word in arguments if not word.startswith("-"))
    return [*([] if named else paths), *arguments]


def _has_catch2() -> bool:
    probe = '#include "tests/cpp/catch.h"\n'
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-I.", "-x", "c++", "-E", "-"]
    return (
        subprocess.run(command, input=probe, text=True, capture_output=True, cwd=ROOT, check=False).returncode
        == 0
    )


def _runs(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
