"""Assertions on memory: assert_no_growth, assert_released, and the fixtures gpu_leaks and leakguard_guard."""

from __future__ import annotations

import collections
import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import leakguard  # noqa: E402
from leakguard import LeakError, assert_no_growth, assert_released, guard  # noqa: E402
from leakguard._native import core  # noqa: E402


def test_a_step_that_keeps_is_found_with_line_and_holder() -> None:
    kept: list[torch.Tensor] = []
    with pytest.raises(LeakError) as caught:
        assert_no_growth(lambda: kept.append(torch.zeros(128)), steps=20)
    (finding,) = caught.value.report.findings
    assert finding.allocated_at.expression == "torch.zeros(128)"
    assert finding.bytes_per_step == 512
    assert "'kept'" in finding.root
    assert len(str(caught.value).splitlines()) <= 25
    assert "in 20 calls" in str(caught.value)


def test_steps_that_keep_nothing_or_a_bounded_past_pass() -> None:
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters())
    ring: collections.deque[Any] = collections.deque(maxlen=3)

    def step() -> None:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 8)).sum()
        loss.backward()
        optimizer.step()
        ring.append(loss.detach() * 2)

    assert_no_growth(step, steps=24)


def test_the_limit_is_for_a_call_site_over_all_calls() -> None:
    kept: list[torch.Tensor] = []
    assert_no_growth(lambda: kept.append(torch.zeros(128)), steps=20, limit="10 KiB")
    with pytest.raises(LeakError):
        assert_no_growth(lambda: kept.append(torch.zeros(128)), steps=20, limit="5 KiB")


def test_a_process_that_is_watched_already_goes_on_being_watched() -> None:
    kept: list[torch.Tensor] = []
    with leakguard.watch() as watching:
        for _ in range(20):
            kept.append(torch.zeros(8))
            leakguard.step()
        assert_no_growth(lambda: None, steps=20)
        with pytest.raises(LeakError):
            assert_no_growth(lambda: kept.append(torch.zeros(8)), steps=20)
        assert guard.current() is watching
    assert not core.watching()


def test_too_few_steps_and_no_size_are_refused() -> None:
    with pytest.raises(ValueError, match="steps is 11: growth is told from warm-up after 12 steps"):
        assert_no_growth(lambda: None, steps=11)
    with pytest.raises(ValueError, match="'5' is not a size"):
        assert_no_growth(lambda: None, limit="5")
    with pytest.raises(ValueError, match="'5' is not a size"):
        assert_released(lambda: None, limit="5")


def test_what_outlives_a_call_is_found() -> None:
    kept: list[torch.Tensor] = []
    with pytest.raises(LeakError, match="cpu keeps 400 B after the call") as caught:
        assert_released(lambda: kept.append(torch.zeros(100)))
    assert caught.value.report.findings[0].allocated_at.expression == "torch.zeros(100)"


def test_results_garbage_and_warm_up_do_not_outlive_a_call() -> None:
    class Node:
        def __init__(self) -> None:
            self.me, self.data = self, torch.zeros(100)

    cache: dict[str, torch.Tensor] = {}
    gc.collect()
    gc.disable()
    try:
        assert_released(lambda: torch.zeros(100))
        assert_released(Node)
        assert_released(lambda: cache.setdefault("table", torch.zeros(100)), warmup=1)
        assert_released(lambda: cache.setdefault("other", torch.zeros(100)), limit="400 B")
    finally:
        gc.enable()


def test_what_the_call_raises_is_what_is_raised() -> None:
    kept: list[torch.Tensor] = []

    def fail() -> None:
        kept.append(torch.zeros(100))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        assert_released(fail)
    with pytest.raises(KeyError, match="mine"):
        assert_no_growth(fail)
    assert guard.current() is None
    assert not core.watching()


def test_switched_off_they_only_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKGUARD", "0")
    kept: list[torch.Tensor] = []
    assert_no_growth(lambda: kept.append(torch.zeros(10)), steps=20)
    assert_released(lambda: kept.append(torch.zeros(10)))
    assert len(kept) == 21


def test_the_fixture_asserts_inside_a_test(project: Any) -> None:
    project.write("""
        import pytest, torch

        KEPT = []

        def keep():
            KEPT.append(torch.zeros(100))

        def test_block(gpu_leaks):
            with gpu_leaks.no_growth():
                torch.zeros(100)
            with gpu_leaks.no_growth("400 B"):
                keep()
            with gpu_leaks.no_growth():
                keep()  # fails here

        def test_steps(gpu_leaks):
            gpu_leaks.assert_no_growth(lambda: torch.zeros(100), steps=20)
            gpu_leaks.assert_no_growth(keep, steps=20)

        def test_call(gpu_leaks):
            gpu_leaks.assert_released(lambda: torch.zeros(100))
            gpu_leaks.assert_released(keep)

        def test_error_of_the_block(gpu_leaks):
            with pytest.raises(KeyError), gpu_leaks.no_growth():
                keep()
                raise KeyError
    """)
    result = project.run()
    result.assert_outcomes(failed=3, passed=1)
    text = result.stdout.str()
    assert "cpu keeps 400 B after the block" in text
    assert "cpu grows 400 B a step" in text
    assert "cpu keeps 400 B after the call" in text
    assert "leakguard/assertions.py" not in text  # the test's own line is the last one shown
    assert "contextlib" not in text


def test_the_baseline_holds_for_the_fixture_too(project: Any) -> None:
    project.write("""
        import torch

        KEPT = []

        def test_call(gpu_leaks):
            gpu_leaks.assert_released(lambda: KEPT.append(torch.zeros(100)))

        def test_marker():
            KEPT.append(torch.zeros(50))
    """)
    project.run("--leakguard-update-baseline").assert_outcomes(passed=2)
    project.run().assert_outcomes(passed=2)


def test_the_guard_of_a_test_watches_its_loop(project: Any) -> None:
    project.write("""
        import leakguard, pytest, torch

        def loop(history, steps=24):
            for _ in range(steps):
                history.append(torch.zeros(100))
                leakguard.step()

        def test_report(leakguard_guard):
            loop([], steps=6)
            history = []
            loop(history)
            report = leakguard_guard.report()
            assert report.steps.source == "explicit"
            assert report.steps.count == 30
            assert report.status == "leak"

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_marked_as_well(leakguard_guard):
            loop([])

        def test_after_it(leakguard_guard):
            assert leakguard_guard.report().status == "inconclusive"
    """)
    project.run().assert_outcomes(passed=2, failed=1)
    assert guard.current() is None
