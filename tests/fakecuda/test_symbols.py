"""The fakes export whatever the installed PyTorch imports, by linking or by name."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import subprocess
from pathlib import Path

import launch
import pytest

# What marks an import that a fake must satisfy: the version node of the symbol.
VERSIONED = {
    "runtime": "libcudart.so.13",
    "cublas": "libcublas.so.13",
    "cublaslt": "libcublasLt.so.13",
}


def torch_directory() -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@pytest.fixture(scope="module")
def fakes() -> Path:
    return launch.build() / "lib"


def symbols(path: Path, kind: str) -> set[str]:
    command = ["nm", "-D", kind, str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in text.splitlines() if line.strip()}


def imported_by_torch() -> set[str]:
    return set().union(*(symbols(p, "--undefined-only") for p in torch_directory().glob("lib/*.so*")))


@pytest.mark.parametrize("name", VERSIONED)
def test_versioned_imports_are_exported(fakes: Path, name: str) -> None:
    node = VERSIONED[name]
    wanted = {s.removesuffix("@" + node) for s in imported_by_torch() if s.endswith("@" + node)}
    exported = symbols(fakes / f"libfakecuda_{name}.so", "--defined-only")
    assert wanted, f"torch imports nothing from {node}; has its version node changed?"
    assert wanted - {s.removesuffix("@@" + node) for s in exported} == set()


def test_driver_imports_are_exported(fakes: Path) -> None:
    wanted = {s for s in imported_by_torch() if re.fullmatch(r"cu(?!File)[A-Z]\w*", s)}
    assert "cuGetErrorString" in wanted
    assert wanted - symbols(fakes / "libfakecuda_driver.so", "--defined-only") == set()


def test_functions_looked_up_by_name_exist(fakes: Path) -> None:
    """c10 lists what it asks the driver and NVML for; newer versions' functions are optional."""
    header = (torch_directory() / "include" / "c10" / "cuda" / "driver_api.h").read_text()
    required = re.findall(r"_\((cu\w+), 12000\)", header)
    assert "cuMemCreate" in required
    driver = ctypes.CDLL(str(fakes / "libfakecuda_driver.so"))
    find = driver.fakecuda_find_driver_function
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    assert [name for name in required if not find(name.encode())] == []
    nvml = set(re.findall(r"_\((nvml\w+)\)", header))
    assert "nvmlInit_v2" in nvml
    assert nvml - symbols(fakes / "libfakecuda_nvml.so", "--defined-only") == set()
