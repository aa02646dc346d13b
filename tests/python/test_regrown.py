"""Which line makes a larger tensor of its own last one, told from its source."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from leakguard.regrown import is_regrown
from leakguard.report import Place

GROWS = {
    "local": "def f(loader):\n    kept = empty()\n    for x in loader:\n        kept = cat([kept, x])  # here\n",
    "script": "kept = empty()\nwhile True:\n    kept = torch.cat([kept, batch()])  # here\n",
    "attribute": "class M:\n    def add(self, x):\n        self.kept = torch.vstack((self.kept, x))  # here\n",
    "entry": "def add(cache, x):\n    cache['k'] = torch.cat([cache['k'], x], 1)  # here\n",
    "global": "kept = empty()\ndef add(x):\n    global kept\n    kept = torch.cat([kept, x])  # here\n",
    "two steps": "def f():\n    while True:\n        new = torch.cat([old, x])  # here\n        old = new\n",
    "cache": "def add(cache, x):\n    key = torch.cat([cache[0], x])  # here\n    cache[:] = [key]\n",
    "padded": "def f(n):\n    for _ in n:\n        kept = F.pad(kept, (0, 1))  # here\n",
    "helper": (
        "def more(a, b):\n    return torch.cat([a, b])  # here\n\n"
        "def f():\n    while True:\n        kept = more(kept, x)\n"
    ),
}

DOES_NOT = {
    "no old one": "def f(loader):\n    for a, b in loader:\n        x = torch.cat([a, b])  # here\n",
    "made anew": "def f(n):\n    for _ in n:\n        x = batch()\n        x = torch.cat([x, one])  # here\n",
    "from the loader": "def f(n):\n    for x in n:\n        x = torch.cat([x, one])  # here\n",
    "in forward": "def forward(self, x):\n    x = torch.cat([x, self.one])  # here\n    return x\n",
    "no joining": "def f(n):\n    for _ in n:\n        x = torch.relu(x)  # here\n",
    "returned only": "def more(a, b):\n    return torch.cat([a, b])  # here\n\ndef f():\n    x = more(a, b)\n",
    "inner loop": (
        "def f(n):\n    for _ in n:\n        x = batch()\n        for y in parts:\n"
        "            x = torch.cat([x, y])  # here\n"
    ),
}


def place_in(tmp_path: Path, source: str) -> Place:
    file = tmp_path / "train.py"
    file.write_text(source)
    lines = source.splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# here"))
    text = lines[line - 1].removesuffix("# here").strip().removeprefix("return ")
    return Place(file=str(file), line=line, expression=text.partition(" = ")[2] or text)


@pytest.mark.parametrize("name", GROWS)
def test_it_is_seen_that_the_old_one_is_in_the_new_one(tmp_path: Path, name: str) -> None:
    assert is_regrown(place_in(tmp_path, GROWS[name]))


@pytest.mark.parametrize("name", DOES_NOT)
def test_what_is_made_anew_is_not_taken_for_it(tmp_path: Path, name: str) -> None:
    assert not is_regrown(place_in(tmp_path, DOES_NOT[name]))


def test_without_source_nothing_is_said(tmp_path: Path) -> None:
    assert not is_regrown(Place())
    assert not is_regrown(Place(file=str(tmp_path / "gone.py"), line=3, expression="torch.cat([kept, x])"))
