"""Every virtual function of the installed allocator interfaces is forwarded.

One that is not would compile all the same, and misbehave.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[3] / "csrc"


def include() -> Path:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("no torch")
    return Path(spec.origin).parent / "include"


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def body_of(header: Path, opening: str) -> str:
    """The text of a class, from its name to its closing brace."""
    text = without_comments(header.read_text())
    start = re.search(opening, text)
    assert start is not None, f"{header} no longer has {opening}"
    depth, end = 1, start.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[start.end() : end]


def virtuals(body: str) -> Counter[str]:
    """Names of the virtual functions a class introduces or overrides, each as often as it is overloaded."""
    without_bodies = re.sub(r"=\s*\{[^{}]*\}", "", body)  # default arguments
    while (shorter := re.sub(r"\{[^{}]*\}", ";", without_bodies)) != without_bodies:
        without_bodies = shorter
    found: Counter[str] = Counter()
    for declaration in without_bodies.split(";"):
        if "virtual" in declaration or re.search(r"\boverride\b", declaration):
            name = re.search(r"([~\w]+)\s*\(", declaration)
            if name is not None and not name[1].startswith("~"):
                found[name[1]] += 1
    return found


def forwarded(source: str, name: str) -> Counter[str]:
    body = body_of(CSRC / source, rf"class {name} final[^{{]*\{{")
    # What stands under an #if counts too: the macros are set by the torch that is installed.
    return virtuals(re.sub(r"^#.*$", "", body, flags=re.MULTILINE))


def interface(*classes: tuple[str, str]) -> Counter[str]:
    """Virtual functions over a chain of classes; one that is overridden on the way counts once."""
    total: Counter[str] = Counter()
    for header, opening in classes:
        total |= virtuals(body_of(include() / header, opening + r"[^;{]*\{"))
    return total


ALLOCATOR = ("c10/core/Allocator.h", r"struct C10_API Allocator\b")
DEVICE_ALLOCATOR = ("c10/core/CachingDeviceAllocator.h", r"struct C10_API DeviceAllocator\b")
CUDA_ALLOCATOR = ("c10/cuda/CUDACachingAllocator.h", r"class CUDAAllocator\b")
HOST_ALLOCATOR = ("ATen/core/CachingHostAllocator.h", r"struct TORCH_API HostAllocator\b")


def test_cuda_allocator():
    wanted = interface(ALLOCATOR, DEVICE_ALLOCATOR, CUDA_ALLOCATOR)
    assert wanted["recordStream"] == 2
    assert wanted["raw_deleter"] == 1
    assert len(wanted) > 40
    missing = wanted - forwarded("cuda/allocator_wrapper.cpp", "AllocatorWrapper")
    assert not missing, f"AllocatorWrapper does not forward {sorted(missing)}"


def test_pinned_allocator():
    wanted = interface(ALLOCATOR, HOST_ALLOCATOR)
    assert "record_event" in wanted
    missing = wanted - forwarded("torch/pinned_allocator.cpp", "PinnedAllocator")
    assert not missing, f"PinnedAllocator does not forward {sorted(missing)}"


def test_a_missing_function_is_named():
    wanted = virtuals("virtual int kept(int) = 0; virtual void forgotten() { call(); } void plain();")
    assert sorted(wanted - virtuals("int kept(int) override { return 0; }")) == ["forgotten"]


def test_workspace_table_is_laid_out_as_declared():
    """known_residents.cpp repeats at::cuda::WorkspaceMapWithMutex; its header needs cuBLAS's and more."""
    text = without_comments((include() / "ATen/cuda/CUDAContextLight.h").read_text())
    declared = body_of(include() / "ATen/cuda/CUDAContextLight.h", r"struct WorkspaceMapWithMutex \{")
    minor = tuple(map(int, re.findall(r"\d+", importlib.import_module("torch").__version__)[:2]))
    value = "std::pair<at::DataPtr,size_t>" if minor >= (2, 13) else "at::DataPtr"
    assert re.sub(r"\s", "", declared) == (
        f"std::map<std::tuple<void*,void*>,{value}>map;std::shared_mutexmutex;}}"
    )
    assert "WorkspaceMapWithMutex& cublas_handle_stream_to_workspace();" in text
    assert "WorkspaceMapWithMutex& cublaslt_handle_stream_to_workspace();" in text
