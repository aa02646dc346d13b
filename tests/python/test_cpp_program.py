"""A LibTorch program that links leakguard: built with CMake as its user would, run, and its report read here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import leakguard

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp_training"
SOURCE = EXAMPLE / "train.cpp"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built."""
    if torch.version.cuda is not None:
        pytest.skip("find_package(Torch) of a CUDA build needs the CUDA toolkit with nvcc")
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if cmake is None:
        pytest.skip("no CMake: python -m pip install cmake")
    if not Path(leakguard.cmake_prefix_path).is_dir():
        pytest.skip(
            "leakguard was built without nlohmann/json: python -m pip install nlohmann-json, then again"
        )
    folder = tmp_path_factory.mktemp("cpp")
    prefix = f"{torch.utils.cmake_prefix_path};{leakguard.cmake_prefix_path}"
    for command in (
        [cmake, "-S", EXAMPLE, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug"],
        [cmake, "--build", folder],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "train"


def line_of(text: str) -> int:
    (number,) = (n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)
    return number


def test_the_program_says_its_leak(program: Path, tmp_path: Path) -> None:
    report_file = tmp_path / "report.json"
    done = subprocess.run([program, report_file], capture_output=True, text=True, check=True)
    verdict, why, then, last = done.stdout.splitlines()
    assert verdict.startswith("LEAK  cpu grows ")
    assert verdict.endswith(" a step, steadily since step 3 (36 of 40 steps)")
    assert why == (
        f"why   const torch::Tensor x = torch::randn({{64, 784}}); (train.cpp:{line_of('torch::randn')}) makes "
        "a block a step that nothing lets go of; 2 call sites in all, 230 KiB a step"
    )
    assert then.startswith("next  look at what keeps the result of that line")
    assert last == f"the whole report: python -m leakguard show {report_file}"

    report = leakguard.load(report_file)
    assert (report.status, report.steps.count, report.steps.source) == ("leak", 40, "explicit")
    assert report.torch == torch.__version__
    batch, scope = report.findings
    # In 4-byte numbers: relu's result and the softmax's live on in the graph; the batch was made by a line of no scope.
    assert scope.bytes_per_step == 4 * (64 * 128 + 64 * 10)
    assert (scope.allocated_at.function, scope.allocated_at.line) == ("evaluate", line_of("Scope scope("))
    assert scope.allocated_at.expression == 'Scope("evaluate")'
    assert batch.bytes_per_step == 4 * 64 * 784
    place = batch.allocated_at
    assert (place.file, place.line) == (str(SOURCE), line_of("torch::randn"))
    assert place.function == "main"
    assert place.expression == "const torch::Tensor x = torch::randn({64, 784});"


def test_its_report_has_every_field_of_the_schema(program: Path, tmp_path: Path) -> None:
    report_file = tmp_path / "report.json"
    subprocess.run([program, report_file], capture_output=True, check=True)
    written = json.loads(report_file.read_text())
    again = leakguard.load(report_file).to_dict()
    assert written.keys() == again.keys()
    assert written["steps"].keys() == again["steps"].keys()
    assert written["devices"][0].keys() == again["devices"][0].keys()
    ours = {"also_born_at"}  # of findings joined by their holder
    assert written["findings"][0].keys() == again["findings"][0].keys() - ours


def test_a_report_that_cannot_be_written_is_said(program: Path, tmp_path: Path) -> None:
    done = subprocess.run([program, tmp_path / "no" / "r.json"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"cannot write its report to {tmp_path}/no/r.json" in done.stderr
