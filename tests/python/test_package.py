"""The package from outside: what an import does, and what is said when a native module does not fit."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import leakguard
from leakguard import _native
from leakguard._version import __version__

PACKAGE = Path(leakguard.__file__).parent
TORCH = _native.read_build_facts().torch  # with its build tag, as torch gives its own version


def python(code: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a line of Python in a process of its own, with `path` before everything that is installed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


def import_error(code: str, path: Path | None = None) -> str:
    """The message of the ImportError that the code ends with."""
    done = python(f"try:\n    {code}\nexcept ImportError as error:\n    print(error)", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout, "no ImportError"
    return done.stdout.rstrip("\n")


@pytest.fixture
def doctored(tmp_path: Path):
    """A copy of the installed package: other build facts, and a native module that is no library at all."""

    def doctor(**facts: object) -> Path:
        copy = tmp_path / "leakguard"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for library in copy.glob("_core.*.so"):
            library.write_bytes(b"not a library")
        file = copy / "_build_facts.py"
        text = file.read_text()
        for name, value in facts.items():
            text, count = re.subn(rf"^{name}\b.*$", f"{name} = {value!r}", text, flags=re.MULTILINE)
            assert count == 1, name
        file.write_text(text)
        return tmp_path

    return doctor


def test_import_is_light_and_silent():
    done = python(
        "import sys, leakguard; "
        "loaded = {m if m[:12] == 'leakguard._c' else m.split('.')[0] for m in sys.modules}; "
        "heavy = loaded & {'torch', 'numpy', 'rich', 'IPython', 'leakguard._core', 'leakguard._cuda'}; "
        "assert not heavy, heavy"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_native_module_loads():
    done = python("from leakguard._native import core; print(core.__name__)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "leakguard._core\n", "")


def test_the_border_has_no_other_names():
    with pytest.raises(AttributeError, match="no attribute 'kernel'"):
        _native.kernel


def test_another_torch_minor_is_refused_before_the_library_is_opened(doctored):
    path = doctored(TORCH_VERSION="2.12.3", TORCH_MINOR=(2, 12))
    assert import_error("from leakguard._native import core", path) == (
        f"leakguard {__version__} was built for torch 2.12.3, and torch {TORCH} is installed. Rebuild it:\n"
        f"  {_native.rebuild_command()}"
    )


def test_another_python_minor_is_refused(doctored):
    message = import_error("from leakguard._native import core", doctored(PYTHON_TAG="cp310"))
    assert f"was built for Python cp310, and this is cp3{sys.version_info[1]}." in message
    assert message.endswith(f"\n  {_native.rebuild_command()}")


def test_modules_of_another_leakguard_are_refused(doctored):
    message = import_error("from leakguard._native import core", doctored(LEAKGUARD_VERSION="0.0.1"))
    assert message.startswith(f"the native modules are of leakguard 0.0.1, and this is {__version__}.")


@pytest.mark.parametrize("version", ["2.10.1", "2.15.0+cu130", "3.0.0"])
def test_torch_outside_the_range_is_refused(version):
    facts = _native.read_build_facts()
    with pytest.raises(ImportError) as caught:
        _native.check_versions(facts, version)
    lines = str(caught.value).splitlines()
    assert (
        f"built for torch {facts.torch}, and torch {version} is installed; it supports 2.11 to 2.14"
        in lines[0]
    )
    assert lines[1:] == [
        f'  {sys.executable} -m pip install "torch>=2.11,<2.15"',
        f"  {_native.rebuild_command()}",
    ]


def test_another_patch_of_the_same_minor_is_taken():
    facts = _native.read_build_facts()
    major, minor = facts.torch_minor
    _native.check_versions(facts, f"{major}.{minor}.99+cu999")


def test_a_library_that_cannot_be_opened_is_explained(doctored):
    lines = import_error("from leakguard._native import core", doctored()).splitlines()
    assert lines[0].startswith("leakguard._core cannot be loaded: ")
    assert lines[1] == "Likely causes, and what to type:"
    causes, commands = lines[2::2], lines[3::2]
    assert [cause[:5] for cause in causes] == ["  1. ", "  2. ", "  3. "]
    assert len(commands) == 3
    assert all("pip install --no-build-isolation" in command for command in commands)


def test_a_tree_that_was_never_built_says_so(doctored):
    path = doctored()
    (path / "leakguard" / "_build_facts.py").unlink()
    message = import_error("from leakguard._native import core", path)
    assert message.startswith(f"leakguard has not been built: {path / 'leakguard'} holds no native modules.")
    assert _native.rebuild_command() in message


def test_missing_torch_is_named_with_the_command():
    message = import_error("import sys; sys.modules['torch'] = None; from leakguard._native import core")
    assert message.startswith("leakguard needs torch, and `import torch` fails in this Python: ")
    assert f'{sys.executable} -m pip install "torch>=2.11,<2.15"' in message


def test_rebuild_command_takes_the_source_that_pip_remembers():
    command = _native.rebuild_command()
    assert command.startswith(
        f"{sys.executable} -m pip install --no-build-isolation --no-deps --force-reinstall "
    )
    assert (Path(command.split()[-1]) / "pyproject.toml").is_file()


def test_rebuild_command_without_a_source_goes_round_the_wheel_cache(monkeypatch):
    monkeypatch.setattr(_native, "_source_folder", lambda: None)
    assert _native.rebuild_command().endswith("--no-cache-dir --no-binary torch-leakguard torch-leakguard")


def test_metadata():
    metadata = importlib.metadata.metadata("torch-leakguard")
    assert metadata["Version"] == __version__ == _native.read_build_facts().leakguard
    required = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert required == ["rich>=13"]
    assert (PACKAGE / "py.typed").is_file()
