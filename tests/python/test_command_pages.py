"""The outputs in the documentation are those of the commands beside them, but for times and versions; the README shows
the beginning of one.

LEAKGUARD_UPDATE_GOLDEN=1 writes them anew; read them before they are committed."""

from __future__ import annotations

import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from torch_snapshots import training

from leakguard.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OUTPUT = re.compile(
    r"(<!-- the output of: python -m leakguard ([^\n]+) -->\n```\n)(.*?)^```$", re.DOTALL | re.MULTILINE
)
EXAMPLE = "examples/quickstart.py"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
SHOWN = [
    pytest.param(page, command, id=f"{page.name}: {command}")
    for page in PAGES
    for _, command, _ in OUTPUT.findall(page.read_text())
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with captures of the example, as it is and mended, and a pickle; and what `run` has said."""
    folder = tmp_path_factory.mktemp("runs")
    script = folder / EXAMPLE
    script.parent.mkdir()
    said = {}
    source = (ROOT / EXAMPLE).read_text()
    mended = source.replace("history.append(torch.softmax(model(x), dim=1))", "history.append(loss.item())")
    assert mended != source
    for name, text in (("run", source), ("after", mended)):
        script.write_text(text)
        command = f"run -o {name}.leakguard {EXAMPLE}"
        done = subprocess.run(
            [sys.executable, "-m", "leakguard", *shlex.split(command)],
            cwd=folder,
            env=os.environ | {"COLUMNS": "80", "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stderr
        if "cuda:0" in done.stderr:
            pytest.skip("the pages show runs on the CPU, and this device cannot be hidden")
        said[command] = done.stderr
    said[f"run {EXAMPLE}"] = re.sub(
        r"^saved .*\n", "", said[f"run -o run.leakguard {EXAMPLE}"], flags=re.MULTILINE
    )
    script.write_text(source)
    shutil.copy(folder / "run.leakguard", folder / "before.leakguard")
    (folder / "snapshot.pickle").write_bytes(pickle.dumps(training()))
    (folder / "later.pickle").write_bytes(pickle.dumps(training(50)))
    return folder, said


@pytest.mark.parametrize(("page", "command"), SHOWN)
def test_the_output_is_real(
    page: Path,
    command: str,
    runs: tuple[Path, dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, said = runs
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    if command in said:
        output = said[command]
    else:
        assert main(shlex.split(command)) == 0
        output = capsys.readouterr().out
    in_whole = page.parent == DOCS
    if os.environ.get("LEAKGUARD_UPDATE_GOLDEN") and in_whole:
        page.write_text(
            OUTPUT.sub(
                lambda found: f"{found[1]}{output}```" if found[2] == command else found[0], page.read_text()
            )
        )
    (shown,) = [text for _, other, text in OUTPUT.findall(page.read_text()) if other == command]
    words = steady(output)
    assert steady(shown) == (words if in_whole else words[: len(steady(shown))])


def steady(text: str) -> str:
    """The words and the figures of memory; without times, versions and process numbers, and however it is wrapped."""
    text = re.sub(r"│|─|\.\.\.", " ", text)
    text = re.sub(r"^time a step .*", "", text, flags=re.MULTILINE)  # a line only where they differ
    text = re.sub(r"(cost|cost of watching) .*", r"\1", text)
    text = re.sub(r"(torch|torch, python|time|a step|slowest step|pid) +[\d.]+.*", r"\1", text)
    text = re.sub(r"[\d.]+ (us|ms|s|min)\b", "time", text)
    return " ".join(text.split())


def test_every_command_has_a_page() -> None:
    navigation = (ROOT / "tools" / "mkdocs.yml").read_text()
    overview = (DOCS / "commands.md").read_text()
    for command in COMMANDS:
        name = command.__name__.rpartition(".")[2]
        assert f"- {name}.md" in navigation
        assert f"]({name}.md)" in overview
        assert f"python -m leakguard {name}" in (DOCS / f"{name}.md").read_text()
