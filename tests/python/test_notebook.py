"""Notebooks, in a real kernel: what a watched cell shows and when, how its lines and its holders are named."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

import leakguard  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"


class Run(nbclient.NotebookClient):  # type: ignore[misc]
    """A notebook that has been run, with what each cell was told to show, in order."""

    def __init__(self, notebook: Any) -> None:
        super().__init__(notebook, timeout=300, allow_errors=True, kernel_name="python3")
        self.shown: dict[int, list[tuple[str, str, str]]] = {}

    def process_message(self, message: Any, cell: Any, number: int) -> Any:
        kind, content = message["msg_type"], message["content"]
        if kind in ("display_data", "update_display_data"):
            what = (kind, content["transient"]["display_id"], content["data"]["text/plain"])
            self.shown.setdefault(number, []).append(what)
        return super().process_message(message, cell, number)

    def text(self, number: int) -> str:
        """All that stands below a cell in the end, as text."""
        parts = []
        for output in self.nb.cells[number].outputs:
            if output.output_type == "error":
                parts.append(f"{output.ename}: {output.evalue}")
            else:
                parts.append(output.get("text") or output.data["text/plain"])
        return "\n".join(parts)


def run(name: str, more: list[str], folder: Path) -> Run:
    """An example, run with more cells after its own."""
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", 4)
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in more]
    client = Run(notebook)
    package = str(Path(leakguard.__file__).parents[1])
    client.execute(
        cwd=str(folder),
        env=os.environ
        | {
            "IPYTHONDIR": str(folder),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]),
        },
    )
    return client


TRAIN = """for batch in batches[:14]:
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
"""
SETUP, LEAK, CLEAN = 1, 2, 4
MORE = {
    "error": f"%%leakguard\n\n{TRAIN}raise RuntimeError('no more')",
    "after it": "print(guard.report().status, guard.table().rows[-1].last_step, guard.active)\nguard.report()",
    "magic inside": f"%%leakguard\n%%time\n{TRAIN}",
    "bad name": "%%leakguard two names",
    "live": f"import leakguard\nlater = leakguard.watch(model, on_exit='never')\nlater.show_live()\n{TRAIN}14",
    "watched already": f"%%leakguard\n{TRAIN.replace('14', '3')}",
    "inner cell": f"%leakguard\nget_ipython().run_cell('print(1 + 1)')\n{TRAIN}",
    "frame": "def train():\n    mine = torch.randn(1000)\n    print(later.why(mine))\n    return 5\ntrain()",
    "await": f"%%leakguard\nimport asyncio\nawait asyncio.sleep(0)\n{TRAIN}",
    "unload": "later.stop()\n%unload_ext leakguard\n%leakguard",
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run("notebook_list", list(MORE.values()), tmp_path_factory.mktemp("list"))


def number(name: str) -> int:
    return 5 + list(MORE).index(name)


def test_leaking_cell(cells: Run) -> None:
    text = cells.text(LEAK)
    assert text.startswith("LEAK  cpu grows 33.0 KiB a step, steadily since step ")
    why = "module global validation (list, 40 items) keeps every step's result and its autograd graph"
    assert f"why {why} next" in " ".join(text.split())
    assert "born at In [2], line 7 in <module> model(held_out) module 2 activation in forward" in " ".join(
        text.split()
    )
    assert re.search(r"held by    ┬ module global validation +list, 40 items\n", text)
    assert "if validation lets go" in text
    assert "cause attached-in-container" in text
    assert re.search(r"^cpu, 40 steps \(optimizer\)\nstep .*survivors", text, re.MULTILINE)
    assert re.search(r"^40 .*\+33\.0 KiB", text, re.MULTILINE)


def test_mended_cell(cells: Run) -> None:
    assert cells.text(CLEAN).startswith(
        "CLEAN  no call site kept more memory from step to step: 40 steps on cpu"
    )


@pytest.mark.parametrize("name", [LEAK, CLEAN, "error", "live", "watched already", "inner cell"])
def test_one_display_brought_up_to_date_in_place(cells: Run, name: str | int) -> None:
    shown = cells.shown[name if isinstance(name, int) else number(name)]
    kinds, places, texts = zip(*shown, strict=True)
    assert kinds == ("display_data", *["update_display_data"] * (len(shown) - 1))
    assert len(set(places)) == 1
    assert "a row appears when the first one ends" in texts[0] or "optimizer" in texts[0]
    steps = [
        int(found[1]) for text in texts if (found := re.search(r"^\w+, (\d+) steps? ", text, re.MULTILINE))
    ]
    assert len(steps) >= 2
    assert steps == sorted(steps)
    assert all("LEAK" not in text and "CLEAN" not in text for text in texts[:-1])


def test_a_cell_that_raises_ends_with_its_error_and_the_verdict(cells: Run) -> None:
    (shown, error) = cells.nb.cells[number("error")].outputs
    assert (error.output_type, error.ename, error.evalue) == ("error", "RuntimeError", "no more")
    assert any("line 7" in re.sub(r"\x1b\[[\d;]*m", "", line) for line in error.traceback)
    assert shown.data["text/plain"].startswith("CLEAN")


def test_the_guard_has_been_left_in_its_variable(cells: Run) -> None:
    said, value = cells.nb.cells[number("after it")].outputs
    assert said.text == "leak 40 False\n"
    assert value.data["text/plain"].startswith("LEAK  cpu grows")
    assert "LEAK</span>" in value.data["text/html"]


def test_another_cell_magic_may_follow(cells: Run) -> None:
    text = cells.text(number("magic inside"))
    assert text.startswith("CLEAN  no call site kept more memory from step to step: 14 steps on cpu")
    assert "Wall time" in text


def test_one_name_at_most(cells: Run) -> None:
    assert "leakguard takes one name, for its Guard, and got 'two names'" in cells.text(number("bad name"))


def test_live_table_of_a_guard(cells: Run) -> None:
    table, value = cells.nb.cells[number("live")].outputs
    assert table.data["text/plain"].startswith("cpu, 14 steps (optimizer)\nstep ")
    assert value.data["text/plain"] == "14"


def test_a_guard_that_watches_already_goes_on(cells: Run) -> None:
    text = cells.text(number("watched already"))
    assert "no call site kept more memory from step to step: 17 steps on cpu" in text
    rows = re.findall(r"^(\d+) .* B ", text, re.MULTILINE)
    assert rows == ["15", "16", "17"]


def test_a_cell_that_a_cell_runs_does_not_end_it(cells: Run) -> None:
    assert "31 steps on cpu" in cells.text(number("inner cell"))


def test_a_cell_may_await(cells: Run) -> None:
    assert "no call site kept more memory from step to step: 45 steps on cpu" in cells.text(number("await"))


def test_lines_of_frames_are_those_of_their_cell(cells: Run) -> None:
    text = cells.text(number("frame"))
    assert "born at    In [11], line 2 in train   torch.randn(1000)" in text
    assert "local 'mine' in train() at In [11], line 2" in text
    assert "ipykernel_" not in text


def test_unloaded_it_is_gone(cells: Run) -> None:
    assert "`%leakguard` not found" in cells.text(number("unload"))


@pytest.mark.parametrize("number", [SETUP, LEAK, CLEAN])
def test_no_cell_failed(cells: Run, number: int) -> None:
    assert [
        output.output_type for output in cells.nb.cells[number].outputs if output.output_type == "error"
    ] == []


REPORT, OWNERS, RESET, QUIET, LEFT = 16, 18, 20, 21, 22
HISTORY_MORE = {
    "failing": "def fail():\n    inside = torch.randn(5000)\n    raise ValueError('x')\nfail()",
    "owners": "guard.owners()",
    "why": "import gc\n"
    "def ask():\n"
    "    (found,) = (t for t in gc.get_objects() if type(t) is torch.Tensor and t.shape == (5000,))\n"
    "    print(guard.why(found))\n"
    "ask()",
    "next exception": "1/0",
    "owners after it": "gc.collect()\nguard.owners()",
}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run("notebook_output_history", list(HISTORY_MORE.values()), tmp_path_factory.mktemp("history"))


def test_output_history_is_one_holder_of_its_own_name(history: Run) -> None:
    text = history.text(REPORT)
    assert text.startswith("LEAK  cpu grows 33.0 KiB a step, steadily since step 3 (10 of 14 steps)")
    why = "notebook output Out (dict, 14 items) keeps every step's result and its autograd graph"
    assert f"why {why} next end the cell with a semicolon" in " ".join(text.split())
    assert re.search(r"held by    ┬ notebook output Out +dict, 14 items\n +├ item ", text)
    assert re.search(r"^frees      \d+ KiB if Out lets go", text, re.MULTILINE)
    assert "cause notebook-history" in text
    assert "born at In [15], line 1 in <module> model(images) module 2 " in " ".join(text.split())
    assert "notebook output Out (dict, 15 items)" in history.text(OWNERS)


def test_cleared_history_lets_go(history: Run) -> None:
    """All but the last three: the report and two tensors."""
    before, after = (
        re.search(r"([\d.]+) KiB +(\d+) blocks cpu", history.text(cell)) for cell in (OWNERS, LEFT)
    )
    assert before is not None and after is not None
    assert (int(before[2]), int(after[2])) == (28, 4)


def test_last_exception_is_a_holder_of_its_own_name(history: Run) -> None:
    owners, why, after = (history.text(23 + number) for number in (1, 2, 4))
    (line,) = re.findall(r"19\.5 KiB 1 block cpu (local inside .*? sys\.last_\w+)", " ".join(owners.split()))
    assert line.startswith("local inside (Tensor, [5000] float32), reached from last exception sys.last_")
    assert "4 blocks cpu notebook output Out (dict, " in " ".join(owners.split())
    assert "born at    In [21], line 2 in fail   torch.randn(5000)" in why
    assert re.search(r"held by    ┬ last exception sys\.last_\w+ +", why)
    assert re.search(r"[├╰] local inside +Tensor, \[5000\] float32\s+In \[21\], line 2", why)
    assert "19.5 KiB" not in after


def test_documentation_shows_what_the_examples_show(cells: Run, history: Run) -> None:
    """But for the figures, and for the way to one of the tensors."""
    page = (EXAMPLES.parent / "docs" / "notebooks.md").read_text()
    blocks = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block, text in zip(blocks, (cells.text(LEAK), history.text(REPORT)), strict=True):
        shown = [without_figures(line) for line in text.splitlines()]
        lines = [
            line for line in block.splitlines() if line.strip("…") and not line.startswith((" ", "frees"))
        ]
        assert len(lines) >= 6
        for line in lines:
            assert without_figures(line) in shown


def without_figures(line: str) -> str:
    return re.sub(r" *[\d.]+ ?([KM]iB|B|[mu]?s\b)? *", "#", line)
