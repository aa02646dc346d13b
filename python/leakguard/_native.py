"""The border to the native modules: the only place that loads them.

    from leakguard._native import core      # loads torch, then leakguard._core
    from leakguard._native import cuda      # loads leakguard._cuda as well; None where torch has no CUDA

A native module fits one torch minor and one Python minor. Versions are compared before a library is opened,
because a library that does not fit may load all the same and then call through a wrong table of functions.
Whatever goes wrong is one ImportError that says what to type.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from leakguard._version import NEWEST_TORCH, OLDEST_TORCH, TORCH_REQUIREMENT, __version__

if TYPE_CHECKING:
    from leakguard import _core as core
    from leakguard import _cuda as cuda

__all__ = ["BuildFacts", "core", "cuda", "read_build_facts", "rebuild_command"]

DISTRIBUTION = "torch-leakguard"


@dataclass(frozen=True, slots=True)
class BuildFacts:
    """What the native modules of this installation were built for."""

    leakguard: str
    python_tag: str
    torch: str
    torch_minor: tuple[int, int]
    torch_cuda: str | None
    has_cuda_module: bool


def read_build_facts() -> BuildFacts:
    """What the build wrote beside the native modules; raises ImportError where nothing was built."""
    try:
        facts = importlib.import_module("leakguard._build_facts")
    except ModuleNotFoundError:
        raise ImportError(
            f"leakguard has not been built: {Path(__file__).parent} holds no native modules. Build it:\n"
            f"  {rebuild_command()}"
        ) from None
    return BuildFacts(
        leakguard=facts.LEAKGUARD_VERSION,
        python_tag=facts.PYTHON_TAG,
        torch=facts.TORCH_VERSION,
        torch_minor=facts.TORCH_MINOR,
        torch_cuda=facts.TORCH_CUDA,
        has_cuda_module=facts.HAS_CUDA_MODULE,
    )


def rebuild_command() -> str:
    """What to type to build leakguard again for this Python and the torch beside it."""
    pip = f"{sys.executable} -m pip install --no-build-isolation --no-deps --force-reinstall"
    source = _source_folder()
    if source is not None:
        return f"{pip} {source}"
    # Without --no-cache-dir pip would put back the wheel that it built for the other torch.
    return f"{pip} --no-cache-dir --no-binary {DISTRIBUTION} {DISTRIBUTION}"


def _source_folder() -> Path | None:
    """The source tree: this file's own, or the one pip remembers (PEP 610); None when it is gone."""
    tree = Path(__file__).parents[2]
    if (tree / "pyproject.toml").is_file() and (tree / "csrc").is_dir():
        return tree
    try:
        text = importlib.metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    url = urlsplit(json.loads(text)["url"]) if text else None
    if url is None or url.scheme != "file":
        return None
    folder = Path(unquote(url.path))
    return folder if (folder / "pyproject.toml").is_file() else None


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def check_versions(facts: BuildFacts, torch_version: str) -> None:
    """Raises ImportError when the native modules do not fit this Python or this torch."""
    if facts.leakguard != __version__:
        raise ImportError(
            f"the native modules are of leakguard {facts.leakguard}, and this is {__version__}. Rebuild it:\n"
            f"  {rebuild_command()}"
        )
    here = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    if facts.python_tag != here:
        raise ImportError(
            f"leakguard {facts.leakguard} was built for Python {facts.python_tag}, and this is {here}. "
            f"Rebuild it:\n  {rebuild_command()}"
        )
    found = _minor(torch_version)
    if not OLDEST_TORCH <= found <= NEWEST_TORCH:
        oldest, newest = (".".join(map(str, minor)) for minor in (OLDEST_TORCH, NEWEST_TORCH))
        raise ImportError(
            f"leakguard {facts.leakguard} was built for torch {facts.torch}, and torch {torch_version} is "
            f"installed; it supports {oldest} to {newest}. Install one of those, then rebuild leakguard:\n"
            f'  {sys.executable} -m pip install "{TORCH_REQUIREMENT}"\n'
            f"  {rebuild_command()}"
        )
    if facts.torch_minor != found:
        raise ImportError(
            f"leakguard {facts.leakguard} was built for torch {facts.torch}, and torch {torch_version} is "
            f"installed. Rebuild it:\n  {rebuild_command()}"
        )


def _import_torch() -> ModuleType:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            f"leakguard needs torch, and `import torch` fails in this Python: {error}\n"
            f'  not installed   {sys.executable} -m pip install "{TORCH_REQUIREMENT}"\n'
            f'  damaged         {sys.executable} -m pip install --force-reinstall "{TORCH_REQUIREMENT}"'
        ) from error


def _open(name: str, facts: BuildFacts, torch: ModuleType) -> ModuleType:
    """Opens one native module whose versions fit; explains when the loader refuses it."""
    try:
        return importlib.import_module(f"leakguard.{name}")
    except ImportError as error:
        raise ImportError(_explain(name, str(error), facts, torch.__version__)) from error


def _explain(name: str, refusal: str, facts: BuildFacts, torch_version: str) -> str:
    """Why a native module may not open although its versions fit: the causes, likeliest first."""
    causes = [
        (
            f"the files of leakguard are not all there (in {Path(__file__).parent})",
            rebuild_command(),
        ),
        (
            f"torch was replaced by another build of it (built for {facts.torch}, found {torch_version})",
            rebuild_command(),
        ),
        (
            "libstdc++ is older than the compiler that built leakguard (the message names GLIBCXX or CXXABI)",
            f"CXX=<an older g++> {rebuild_command()}",
        ),
    ]
    lines = [f"leakguard.{name} cannot be loaded: {refusal}", "Likely causes, and what to type:"]
    for number, (cause, command) in enumerate(causes, 1):
        lines += [f"  {number}. {cause}", f"       {command}"]
    return "\n".join(lines)


def _load_core() -> ModuleType:
    facts = read_build_facts()
    torch = _import_torch()
    check_versions(facts, torch.__version__)
    return _open("_core", facts, torch)


def _load_cuda() -> ModuleType | None:
    _load_core()
    facts = read_build_facts()
    torch = _import_torch()
    if torch.version.cuda is None:
        return None
    if not facts.has_cuda_module:
        raise ImportError(
            f"torch {torch.__version__} has CUDA, and leakguard was built without it, for torch "
            f"{facts.torch}. Rebuild it:\n  {rebuild_command()}"
        )
    return _open("_cuda", facts, torch)


_LOADERS = {"core": _load_core, "cuda": _load_cuda}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> ModuleType | None:
        """Loads a native module at its first use; the result stays in this module's namespace."""
        loader = _LOADERS.get(name)
        if loader is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = loader()
        globals()[name] = module
        return module
