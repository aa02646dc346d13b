"""The virtual environments of the tasks: one for each torch version, shared by all tasks, made once.

They live in .dev/venvs. What goes into them is in requirements/; pip runs again only when a list has changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.stamps import ROOT, Stamp

DEV = ROOT / ".dev"
REQUIREMENTS = ROOT / "requirements"
SOURCES = [ROOT / name for name in ("CMakeLists.txt", "pyproject.toml", "cmake", "csrc", "python")]


@dataclass(frozen=True)
class Venv:
    """A virtual environment; `name` is also the name of its build folders."""

    name: str
    interpreter: str = sys.executable

    @property
    def folder(self) -> Path:
        return DEV / "venvs" / self.name

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def tool(self, name: str) -> str:
        """The path of a program that this environment has."""
        return str(self.folder / "bin" / name)

    def environment(self, **extra: str) -> dict[str, str]:
        """The process environment with this venv's programs first and no Python settings from outside."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        path = f"{self.folder / 'bin'}{os.pathsep}{inherited.get('PATH', os.defpath)}"
        return inherited | {"PATH": path, "VIRTUAL_ENV": str(self.folder)} | extra

    def run(self, *command: str, **extra: str) -> None:
        """Runs a command inside; raises subprocess.CalledProcessError when it fails."""
        subprocess.run(command, check=True, cwd=ROOT, env=self.environment(**extra), stdin=subprocess.DEVNULL)

    def run_quietly(self, *command: str) -> None:
        """Like run, but what the command prints is shown only when it fails."""
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            print(done.stdout, flush=True)
            raise subprocess.CalledProcessError(done.returncode, command)

    def pip_install(self, *arguments: str) -> None:
        """Installs what pip understands under these arguments."""
        self.run_quietly(self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments)

    def ensure(self, *lists: str) -> Venv:
        """Makes the environment if need be and brings in the requirement lists of these names."""
        version = subprocess.run([self.interpreter, "-VV"], check=True, capture_output=True, text=True).stdout
        made = Stamp(self.folder / "stamps" / "made", [version, str(self.folder)])
        if not made.is_fresh():
            shutil.rmtree(self.folder, ignore_errors=True)
            subprocess.run([self.interpreter, "-m", "venv", self.folder], check=True)
            made.set()
        for name in lists:
            file = REQUIREMENTS / f"{name}.txt"
            included = re.findall(r"^-r (\S+)", file.read_text(), re.MULTILINE)
            stamp = Stamp(
                self.folder / "stamps" / name, [file, *(REQUIREMENTS / other for other in included)]
            )
            if not stamp.is_fresh():
                print(f"venv {self.name}: pip install -r {file.relative_to(ROOT)}", flush=True)
                self.pip_install("-r", str(file))
                stamp.set()
        return self

    def ask(self, code: str) -> str:
        """What a line of Python prints inside, without the newline."""
        done = subprocess.run(
            [self.python, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            cwd=DEV,
            env=self.environment(),
        )
        return done.stdout.strip()

    def install_leakguard(self) -> None:
        """Builds and installs the project as a user would, unless this very source is installed already."""
        torch = self.ask("from importlib.metadata import version; print(version('torch'))")
        stamp = Stamp(self.folder / "stamps" / "leakguard", [torch, os.environ.get("CXX", ""), *SOURCES])
        if stamp.is_fresh():
            return
        print(f"venv {self.name}: building leakguard for torch {torch}", flush=True)
        self.pip_install(
            "--no-build-isolation",
            "--no-deps",
            "--force-reinstall",
            f"-Cbuild-dir={DEV / 'build' / self.name}",
            "-Ccmake.define.LEAKGUARD_WARNINGS_AS_ERRORS=ON",
            str(ROOT),
        )
        stamp.set()


def interpreters() -> dict[str, str | None]:
    """For each supported Python minor an interpreter with its headers, or None; this one comes first."""
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found: dict[str, str | None] = {own: sys.executable}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for minor in ("3.11", "3.12", "3.13"):
        candidates = [
            shutil.which(f"python{minor}"),
            *map(str, sorted(pyenv.glob(f"{minor}.*/bin/python{minor}"))),
        ]
        found.setdefault(
            minor, next((path for path in candidates if path and _has_headers(path, minor)), None)
        )
    return found


def _has_headers(interpreter: str, minor: str) -> bool:
    code = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_path('include'))"
    done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return False
    version, include = done.stdout.strip().split(" ", 1)
    return version == minor and Path(include, "Python.h").is_file()
