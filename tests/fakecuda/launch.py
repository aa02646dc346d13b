"""Builds the fake CUDA runtime for this interpreter's torch and runs a command under it.

    python tests/fakecuda/launch.py python train.py
    python tests/fakecuda/launch.py python -m pytest tests/fakecuda tests/python/cuda

The interpreter's torch must be a CUDA 13 build. Settings are environment variables, see README.md.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULT_BUILD = HERE.parents[1] / ".dev" / f"fakecuda-{sys.implementation.cache_tag}"
LIBRARIES = ("driver", "runtime", "nvml", "cublas", "cublaslt")


def build(directory: Path | None = None) -> Path:
    """Brings the fake up to date and returns its build directory (FAKECUDA_BUILD, or .dev/)."""
    directory = directory or Path(os.environ.get("FAKECUDA_BUILD") or DEFAULT_BUILD)
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cache = directory / "CMakeCache.txt"
        setting = f"Python3_EXECUTABLE:UNINITIALIZED={sys.executable}\n"
        if not cache.exists() or setting not in cache.read_text():
            settings = (f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}", f"-DPython3_EXECUTABLE={sys.executable}")
            _run(_tool("cmake"), "-G", "Ninja", "-S", str(HERE), "-B", str(directory), *settings)
        _run(_tool("ninja"), "-C", str(directory))
    return directory


def environment(directory: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`base` with the fake preloaded and its Python module importable."""
    fakes = [str(directory / "lib" / f"libfakecuda_{name}.so") for name in LIBRARIES]
    result = {key: value for key, value in base.items() if key != "CUDA_VISIBLE_DEVICES"}
    result["LD_PRELOAD"] = ":".join([*fakes, *filter(None, [base.get("LD_PRELOAD")])])
    result["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [base.get("PYTHONPATH")])])
    return result


def _tool(name: str) -> str:
    """The program beside this interpreter, or on PATH."""
    here = str(Path(sys.executable).parent)
    found = shutil.which(name, path=os.pathsep.join([here, os.environ.get("PATH", "")]))
    if found is None:
        raise FileNotFoundError(f"the fake CUDA runtime needs {name}: pip install {name}")
    return found


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed\n{done.stdout}{done.stderr}")


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.execvpe(sys.argv[1], sys.argv[1:], environment(build()))


if __name__ == "__main__":
    main()
