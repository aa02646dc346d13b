"""`leakguard run --html`: a page beside the verdict, and no harm to the run whatever becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from watched_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_page_is_written_and_said_to_be(world: World) -> None:
    world.write("import os, sys\nprint('done', sys.argv[1])\nos.chdir('/')")
    done = world.run("--html", "page.html", "script.py", "<b>")
    assert (done.returncode, done.stdout) == (0, "done <b>\n")
    assert done.stderr.endswith("saved      report.json\n           page.html\n")
    page = (world.folder / "page.html").read_text()
    assert "cpu grows" in page
    assert "<code>script.py &#x27;&lt;b&gt;&#x27;</code>" in page
    assert world.asked()[1:] == ["recording", "report", "stop"]


def test_names_are_filled_in(world: World) -> None:
    world.write("")
    world.run("--html", "page.html", "script.py", RANK="3", FAKE_STATUS="clean")
    assert (world.folder / "page.rank3.html").exists()


def test_a_page_that_cannot_be_written_is_said_before_the_script_runs(world: World) -> None:
    world.write("print('ran')")
    done = world.run("--html", "no/page.html", "script.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Make its folder first" in done.stderr


def test_a_page_that_cannot_be_made_harms_nothing(world: World) -> None:
    world.write("import leakguard.render.html as page\npage.to_html = None\nraise SystemExit(5)")
    done = world.run("--html", "page.html", "script.py")
    assert done.returncode == 5
    assert "page.html was not written: TypeError" in done.stderr
    assert "LEAK  cpu grows" in done.stderr
    assert done.stderr.endswith("saved      report.json\n")
    assert world.report().status == "leak"
    assert not (world.folder / "page.html").exists()


def test_a_run_that_is_not_watched_has_its_page_too(world: World) -> None:
    world.write("")
    done = world.run("--html", "page.html", "script.py", LEAKGUARD="0")
    assert done.returncode == 0
    assert "INCONCLUSIVE" in (world.folder / "page.html").read_text()
