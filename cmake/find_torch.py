"""Tells the build about the torch of this Python, as CMake set() lines on standard output.

torch is found but not imported: an import takes seconds and needs libraries that the build does not. On a
torch that leakguard cannot be built against, a message with the remedy goes to standard error and the exit
status is 1.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = runpy.run_path(str(ROOT / "python" / "leakguard" / "_version.py"))


class CannotBuild(Exception):
    """The message says what is wrong and what to type."""


def install_commands() -> str:
    """The two commands that build leakguard against an installed torch."""
    return (
        f'  python -m pip install "{VERSION["TORCH_REQUIREMENT"]}" scikit-build-core cmake ninja\n'
        "  python -m pip install --no-build-isolation ."
    )


def torch_folder() -> Path:
    """Where torch is installed; raises CannotBuild when it is not."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise CannotBuild(
            "leakguard is built against the torch that is installed, and this Python sees none.\n"
            "A plain `pip install .` builds in an isolated environment, which hides torch. Type instead:\n\n"
            f"{install_commands()}\n"
        )
    return Path(spec.origin).parent


def check_range(version: str) -> tuple[int, int]:
    """(major, minor) of a torch version; raises CannotBuild outside the supported range."""
    match = re.match(r"(\d+)\.(\d+)", version)
    minor = (int(match[1]), int(match[2])) if match else (0, 0)
    oldest, newest = VERSION["OLDEST_TORCH"], VERSION["NEWEST_TORCH"]
    if not oldest <= minor <= newest:
        raise CannotBuild(
            f"torch {version} is installed, and leakguard {VERSION['__version__']} supports "
            f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}. Type:\n\n{install_commands()}\n"
        )
    return minor


def cuda_toolkits() -> Iterator[Path]:
    """Include directories of the toolkits that may be on this machine, likeliest first."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "include")
    compiler = shutil.which("nvcc")
    if compiler:
        yield Path(compiler).resolve().parent.parent / "include"
    yield Path("/usr/local/cuda/include")
    yield from sorted(Path("/usr/local").glob("cuda-*/include"), reverse=True)


def cuda_wheels() -> Iterator[list[Path]]:
    """Include directories of NVIDIA's wheels: one shared folder from CUDA 13 on, one for each part before."""
    spec = find_spec("nvidia")
    for base in map(Path, spec.submodule_search_locations or () if spec else ()):
        yield from ([folder] for folder in sorted(base.glob("cu[0-9]*/include"), reverse=True))
        yield [base / "cuda_runtime" / "include", base / "cuda_nvcc" / "include"]


def holds_cuda_headers(folders: Iterable[Path], major: int | None) -> bool:
    """Whether the folders have all the headers c10/cuda needs, of this CUDA major version (None: of any)."""
    needed = {"cuda.h", "cuda_runtime_api.h", "crt/host_config.h"}
    found = {name: path for folder in folders for name in needed if (path := folder / name).is_file()}
    if found.keys() != needed:
        return False
    match = re.search(r"#define CUDA_VERSION (\d+)", found["cuda.h"].read_text(errors="replace"))
    return match is not None and major in (None, int(match[1]) // 1000)


def cuda_include(major: int | None) -> list[Path]:
    """Include directories with the CUDA headers: a toolkit's if there is one, else the wheels', or none."""
    candidates = [[folder] for folder in cuda_toolkits()] + list(cuda_wheels())
    return next((folders for folders in candidates if holds_cuda_headers(folders, major)), [])


def cuda_header_command(major: int | None) -> str:
    """What to type for the CUDA headers when there is no toolkit."""
    if major == 12:
        return 'python -m pip install "nvidia-cuda-runtime-cu12" "nvidia-cuda-nvcc-cu12"'
    wanted = f"=={major}.*" if major else ""
    return f'python -m pip install "nvidia-cuda-runtime{wanted}" "nvidia-cuda-crt{wanted}"'


def facts() -> dict[str, str]:
    """What the build needs to know, by the name of the CMake variable."""
    folder = torch_folder()
    version = runpy.run_path(str(folder / "version.py"))
    major, minor = check_range(version["__version__"])
    cuda = version["cuda"]
    cuda_major = int(cuda.split(".")[0]) if cuda else None
    oldest, newest = VERSION["OLDEST_TORCH"], VERSION["NEWEST_TORCH"]
    return {
        "LEAKGUARD_TORCH_DIR": folder.as_posix(),
        "LEAKGUARD_TORCH_VERSION": version["__version__"],
        "LEAKGUARD_TORCH_MINOR": f"{major};{minor}",
        "LEAKGUARD_TORCH_RANGE": f"{oldest[0] * 100 + oldest[1]};{newest[0] * 100 + newest[1]}",
        "LEAKGUARD_TORCH_CUDA": cuda or "",
        "LEAKGUARD_CUDA_INCLUDE": ";".join(path.as_posix() for path in cuda_include(cuda_major)),
        "LEAKGUARD_CUDA_HEADER_COMMAND": cuda_header_command(cuda_major),
        "LEAKGUARD_PYTHON_TAG": f"cp{sys.version_info[0]}{sys.version_info[1]}",
    }


def main() -> int:
    """Prints the facts; 1 when leakguard cannot be built here."""
    try:
        for name, value in facts().items():
            print(f"set({name} [==[{value}]==])")
    except CannotBuild as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
