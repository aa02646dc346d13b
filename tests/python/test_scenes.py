"""Every scene under watch, many to a process: a leak is named with its line and rate, a clean loop is not
accused."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

torch = pytest.importorskip("torch")

from scenes.device import CUDA_ROUNDING, stage  # noqa: E402
from scenes.scene import CLEAN, LEAKS, WARNINGS, Scene, Steps  # noqa: E402

import leakguard  # noqa: E402
from leakguard.report import Finding, Place, Report  # noqa: E402
from leakguard.units import format_bytes  # noqa: E402

for file in sorted((TESTS / "scenes").glob("*_*.py")):
    if file.name.startswith(("leaks_", "warnings_", "clean_")):
        importlib.import_module(f"scenes.{file.stem}")

GROWS = ("growing", "no-owner")


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def run(scene: Scene, steps: int) -> tuple[Report, Report]:
    """The reports at the end of the loop: while its function still runs, and when it has returned."""
    inside: list[Report] = []
    with stage(scene), leakguard.watch(on_exit="never") as guard:
        scene.loop(Steps(steps, lambda: inside.append(guard.report())))
        outside = guard.report()
    assert len(inside) == 1, "the scene must take all its steps"
    return inside[0], outside


def check_steps(scene: Scene, steps: int, report: Report) -> None:
    assert report.steps.source == scene.source
    assert report.steps.count == scene.count(steps)
    assert report.lost.failures == 0
    assert report.lost.events == 0


def growing(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.verdict in GROWS]


def check_leak(scene: Scene, report: Report) -> None:
    assert report.status == "leak", report
    check_findings(scene, growing(report), report)


def check_warning(scene: Scene, report: Report) -> None:
    assert report.status == "warning", report
    assert growing(report) == [], report
    check_findings(scene, [f for f in report.findings if f.verdict == scene.verdict], report)


def check_findings(scene: Scene, findings: list[Finding], report: Report) -> None:
    assert findings, report
    first = findings[0]
    places = [place for place in (first.allocated_at, *first.also_born_at) if is_marked(scene, place)]
    assert places, f"none of lines {scene.lines} named:\n{report}"
    if scene.leads:
        assert places[0] is first.allocated_at, f"line {scene.lines} does not come first:\n{report}"
    source = scene.file.read_text(encoding="utf-8").splitlines()
    for place in places:
        assert place.line is not None
        assert place.expression
        assert place.expression in source[place.line - 1]
        assert place.function
        if scene.phase is not None:
            assert place.phase == scene.phase
    if scene.holder is not None:
        assert scene.holder in [link.name for link in first.retained_by], report
    if scene.bytes_per_step is not None:
        rate = sum(f.bytes_per_step for f in findings)
        rounding = sum(CUDA_ROUNDING * f.blocks_per_step for f in findings if f.device.startswith("cuda"))
        assert rate >= scene.bytes_per_step * (1 - scene.tolerance), report
        assert rate <= scene.bytes_per_step * (1 + scene.tolerance) + rounding, report
    if scene.blocks_per_step is not None:
        assert sum(f.blocks_per_step for f in findings) == pytest.approx(
            scene.blocks_per_step, rel=scene.tolerance
        ), report


def is_marked(scene: Scene, place: Place) -> bool:
    return place.file == str(scene.file) and place.line in scene.lines


def check_clean(report: Report) -> None:
    assert growing(report) == [], report
    assert report.status in ("clean", "warning"), report


def all_leaks() -> list[Any]:
    return [pytest.param(scene, id=name) for name, scene in LEAKS.items()]


def all_clean() -> list[Any]:
    return [pytest.param(scene, id=name) for name, scene in CLEAN.items()]


@pytest.mark.parametrize("scene", all_leaks())
def test_leak_is_named(scene: Scene) -> None:
    for report in run(scene, scene.steps):
        check_steps(scene, scene.steps, report)
        check_leak(scene, report)


@pytest.mark.parametrize("scene", WARNINGS.values(), ids=WARNINGS)
def test_what_waits_is_a_warning(scene: Scene) -> None:
    inside, outside = run(scene, scene.steps)
    check_steps(scene, scene.steps, inside)
    check_warning(scene, inside)
    check_clean(outside)


@pytest.mark.parametrize("scene", all_clean())
def test_clean_loop_is_not_accused(scene: Scene) -> None:
    for report in run(scene, scene.steps):
        check_steps(scene, scene.steps, report)
        check_clean(report)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("deque_that_is_far_from_its_limit", 5000),
        ("list_made_in_advance_that_fills", 1000),
        ("array_made_in_advance_that_fills", 1000),
    ],
)
def test_what_a_limit_will_cost(name: str, limit: int) -> None:
    """Whenever the holder was looked at: items of one size each, up to the limit."""
    scene = WARNINGS[name]
    item = scene.bytes_per_step
    assert item is not None
    for steps in (20, 60):
        for report in run(scene, steps):
            (why,) = (finding.why for finding in report.findings if finding.verdict == "bounded")
            assert f"up to its limit of {limit} items (" in why
            assert why.endswith(f"): {format_bytes(limit * item)} then"), why


@pytest.mark.long
@pytest.mark.parametrize("scene", all_leaks())
def test_leak_is_named_in_a_long_run(scene: Scene) -> None:
    for report in run(scene, scene.long_steps):
        check_steps(scene, scene.long_steps, report)
        check_leak(scene, report)


@pytest.mark.long
@pytest.mark.parametrize("scene", WARNINGS.values(), ids=WARNINGS)
def test_what_waits_is_a_warning_in_a_long_run(scene: Scene) -> None:
    inside, outside = run(scene, scene.long_steps)
    check_warning(scene, inside)
    check_clean(outside)


@pytest.mark.long
@pytest.mark.parametrize("scene", all_clean())
def test_clean_loop_is_not_accused_in_a_long_run(scene: Scene) -> None:
    for report in run(scene, scene.long_steps):
        check_steps(scene, scene.long_steps, report)
        check_clean(report)
