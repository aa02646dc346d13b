"""What the build learns about torch, and what it says when it cannot go on."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "cmake" / "find_torch.py"


@pytest.fixture
def find_torch():
    spec = importlib.util.spec_from_file_location("find_torch", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(torch: Path | None) -> subprocess.CompletedProcess[str]:
    """The script in a Python that sees nothing installed but, perhaps, this one folder."""
    environment = os.environ | {"PYTHONPATH": str(torch or "")}
    return subprocess.run([sys.executable, "-S", SCRIPT], capture_output=True, text=True, env=environment)


def make_torch(folder: Path, version: str, cuda: str | None = None) -> Path:
    package = folder / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('torch is not to be imported')\n")
    (package / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n")
    return folder


def make_headers(folder: Path, cuda_version: int) -> Path:
    (folder / "crt").mkdir(parents=True)
    (folder / "cuda.h").write_text(f"#define CUDA_VERSION {cuda_version}\n")
    (folder / "cuda_runtime_api.h").touch()
    (folder / "crt" / "host_config.h").touch()
    return folder


def test_isolation_is_named_with_the_two_commands():
    done = run(None)
    assert (done.returncode, done.stdout) == (1, "")
    assert "hides torch" in done.stderr
    commands = [line.strip() for line in done.stderr.splitlines() if line.startswith("  ")]
    assert commands == [
        'python -m pip install "torch>=2.11,<2.15" scikit-build-core cmake ninja',
        "python -m pip install --no-build-isolation .",
    ]


@pytest.mark.parametrize("version", ["2.10.0+cpu", "2.15.0", "1.13.1", "unknown"])
def test_torch_outside_the_range_stops_the_build(tmp_path, version):
    done = run(make_torch(tmp_path, version))
    assert done.returncode == 1
    assert f"torch {version} is installed" in done.stderr
    assert "supports 2.11 to 2.14" in done.stderr


@pytest.mark.parametrize("version", ["2.11.0", "2.14.1+cu130"])
def test_facts_without_importing_torch(tmp_path, version):
    done = run(make_torch(tmp_path, version, cuda="13.0"))
    assert done.returncode == 0, done.stderr
    assert f"set(LEAKGUARD_TORCH_DIR [==[{tmp_path}/torch]==])" in done.stdout
    assert f"set(LEAKGUARD_TORCH_VERSION [==[{version}]==])" in done.stdout
    assert f"set(LEAKGUARD_TORCH_MINOR [==[2;{version[2:4]}]==])" in done.stdout


def test_a_toolkit_of_the_right_major_comes_before_the_wheels(tmp_path, find_torch, monkeypatch):
    old = make_headers(tmp_path / "old", 12040)
    toolkit = make_headers(tmp_path / "toolkit", 13000)
    wheel = make_headers(tmp_path / "wheel", 13000)
    monkeypatch.setattr(find_torch, "cuda_toolkits", lambda: iter([old, toolkit]))
    monkeypatch.setattr(find_torch, "cuda_wheels", lambda: iter([[wheel]]))
    assert find_torch.cuda_include(13) == [toolkit]
    assert find_torch.cuda_include(12) == [old]
    assert find_torch.cuda_include(11) == []


def test_headers_of_cuda_12_wheels_lie_in_two_folders(tmp_path, find_torch, monkeypatch):
    headers = make_headers(tmp_path / "nvidia" / "cuda_runtime" / "include", 12080)
    compiler = tmp_path / "nvidia" / "cuda_nvcc" / "include"
    compiler.mkdir(parents=True)
    (headers / "crt").rename(compiler / "crt")
    monkeypatch.setattr(find_torch, "cuda_toolkits", lambda: iter(()))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    assert find_torch.cuda_include(12) == [headers, compiler]


def test_half_a_set_of_headers_is_none(tmp_path, find_torch):
    headers = make_headers(tmp_path, 13000)
    (headers / "crt" / "host_config.h").unlink()
    assert not find_torch.holds_cuda_headers([headers], 13)


def test_the_command_for_headers_fits_the_cuda_major(find_torch):
    assert "nvidia-cuda-nvcc-cu12" in find_torch.cuda_header_command(12)
    assert '"nvidia-cuda-crt==13.*"' in find_torch.cuda_header_command(13)
