"""The scenes as tests: the leaking loops fail, with the right line and holder, and the clean ones pass."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from plugin_world import PluginWorld

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from scenes.scene import CLEAN, LEAKS, Scene  # noqa: E402

for file in sorted((TESTS / "scenes").glob("*_*.py")):
    if file.name.startswith(("leaks_", "clean_")):
        importlib.import_module(f"scenes.{file.stem}")

A_FEW_LEAKS = list(LEAKS)[::12]
A_FEW_CLEAN = list(CLEAN)[::6]

AS_TESTS = """
import sys

sys.path.insert(0, {tests!r})

import pytest
from scenes.device import stage
from scenes.scene import CLEAN, LEAKS, Steps

SCENES = {{**LEAKS, **CLEAN}}

@pytest.fixture(autouse=True)
def on_stage(name):
    with stage(SCENES[name]):
        yield

@pytest.mark.limit_gpu_leaks("0 B")
@pytest.mark.parametrize("name", {names})
def test_scene(name):
    SCENES[name].loop(Steps(SCENES[name].steps))
"""


def run(project: PluginWorld, names: list[str]) -> dict[str, list[dict[str, object]]]:
    """What the plugin finds in each scene; a scene that passes has no findings."""
    project.write(AS_TESTS.format(names=names, tests=str(TESTS)))
    result = project.run("--leakguard-json=leaks.json")
    outcomes = result.parseoutcomes()
    assert outcomes.get("passed", 0) + outcomes.get("failed", 0) == len(names), result.stdout.str()
    findings = project.findings()
    return {name: findings[f"test_scene[{name}]"] for name in names}


def check_leak(scene: Scene, findings: list[dict[str, object]]) -> None:
    assert findings, f"{scene.name} passes"
    first = findings[0]
    places = [first["allocated_at"], *first["also_born_at"]]  # type: ignore[misc]
    lines = {place["line"] for place in places if place["file"] == str(scene.file)}  # type: ignore[index]
    assert lines & set(scene.lines), f"{scene.name}: {lines} named, and not {scene.lines}"
    holders = [link["name"] for link in first["retained_by"]]  # type: ignore[attr-defined]
    assert holders, f"{scene.name}: nobody is named"
    assert scene.holder is None or scene.holder in holders, scene.name


def test_leaking_loops_fail_with_line_and_holder(project: PluginWorld) -> None:
    for name, findings in run(project, A_FEW_LEAKS).items():
        check_leak(LEAKS[name], findings)


def test_clean_loops_pass(project: PluginWorld) -> None:
    assert run(project, A_FEW_CLEAN) == {name: [] for name in A_FEW_CLEAN}


@pytest.mark.long
def test_all_leaking_loops_fail_with_line_and_holder(project: PluginWorld) -> None:
    for name, findings in run(project, list(LEAKS)).items():
        check_leak(LEAKS[name], findings)


@pytest.mark.long
def test_all_clean_loops_pass(project: PluginWorld) -> None:
    assert run(project, list(CLEAN)) == {name: [] for name in CLEAN}
