"""What the documentation shows is run: loops that leak and their mended forms, and every other piece of Python."""

from __future__ import annotations

import gc
import logging
import re
import sys
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import leakguard

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CAUSES = tomllib.loads((Path(leakguard.__file__).parent / "causes.toml").read_text())["cause"]
STEPS = 16


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def sections(page: Path) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


LOOPS = {slug: python_blocks(text) for slug, text in sections(DOCS / "causes.md").items()}


def world() -> dict[str, object]:
    """The names that a piece of the documentation may take for granted."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def train_step(batch: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    loader = [torch.rand(8, 16) for _ in range(STEPS)]
    return {
        "torch": torch,
        "model": model,
        "optimizer": optimizer,
        "loader": loader,
        "train_step": train_step,
    }


@pytest.fixture
def run(tmp_path: Path) -> Iterator[object]:
    """Runs a piece as a module of its own."""
    module = types.ModuleType("piece")
    sys.modules["piece"] = module

    def run(source: str) -> types.ModuleType:
        file = tmp_path / "piece.py"
        file.write_text(source)
        module.__file__ = str(file)
        module.__dict__.update(world())
        exec(compile(source, str(file), "exec"), module.__dict__)
        return module

    yield run
    del sys.modules["piece"]
    module.__dict__.clear()
    logging.getLogger("train").handlers.clear()
    gc.enable()
    gc.collect()


def test_every_cause_has_its_section_or_row() -> None:
    page = (DOCS / "causes.md").read_text()
    rows = {
        cause["slug"]
        for cause in CAUSES
        if f"| `{cause['slug']}` | {cause['explanation']} | {cause['fix']} |\n" in page
    }
    assert set(LOOPS) | rows == {cause["slug"] for cause in CAUSES}
    assert not set(LOOPS) & rows
    assert {slug: len(blocks) for slug, blocks in LOOPS.items()} == dict.fromkeys(LOOPS, 2)


@pytest.mark.parametrize("slug", LOOPS)
def test_the_first_loop_leaks_for_that_cause(slug: str, run) -> None:
    with leakguard.watch(on_exit="never") as guard:
        run(LOOPS[slug][0])
        report = guard.report()
    assert report.status == ("warning" if slug == "garbage-cycle" else "leak"), str(report)
    assert report.findings[0].cause == slug, str(report)


@pytest.mark.parametrize("slug", LOOPS)
def test_the_second_loop_does_not(slug: str, run) -> None:
    with leakguard.watch(on_exit="never") as guard:
        run(LOOPS[slug][1])
        report = guard.report()
    assert report.status == "clean", str(report)
    assert report.steps.count == STEPS


OTHER = [
    pytest.param(source, id=f"{page.name}-{number}")
    for page in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
    if page.name != "causes.md"
    for number, source in enumerate(python_blocks(page.read_text()), 1)
]


@pytest.mark.parametrize("source", OTHER)
def test_other_pieces_run(source: str, run, capsys: pytest.CaptureFixture[str]) -> None:
    module = run(source)
    guard = getattr(module, "guard", None)
    if guard is not None:
        guard.stop()


def test_links_lead_somewhere() -> None:
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (DOCS / target).exists(), f"{page.name}: {target}"
