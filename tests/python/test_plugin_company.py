"""The plugin beside others: xdist, rerunfailures, asyncio, randomly."""

from __future__ import annotations

import json

import pytest
from plugin_world import CLEAN, LEAK, PluginWorld, failure_of

BOTH = LEAK + CLEAN.replace("import pytest, torch", "")


def test_workers_of_xdist_find_what_one_process_would(project: PluginWorld) -> None:
    pytest.importorskip("xdist", reason="pip install pytest-xdist")
    project.write(BOTH)
    project.write(
        """
        import torch

        CACHE = {}

        def test_caches():
            CACHE["first"] = torch.zeros(1000)
    """,
        "test_other",
    )
    done = project.run_alone(
        "-p", "xdist.plugin", "-n", "2", "--leakguard", "--leakguard-json=leaks.json", "--junitxml=junit.xml"
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "held by" in done.stdout
    assert project.statuses()["test_leaks"] == "leak"
    assert [row["bytes"] for row in project.json()["left_behind"]] == [4000]
    (failure,) = project.junit().iter("failure")
    assert failure.attrib["message"].startswith(f"test_it.py:{project.line('leaks')}: ")


def test_workers_of_xdist_report_misuse_and_share_a_baseline(project: PluginWorld) -> None:
    pytest.importorskip("xdist", reason="pip install pytest-xdist")
    project.write(BOTH)
    workers = ("-p", "xdist.plugin", "-n", "2")
    assert project.run_alone(*workers, "--leakguard-update-baseline").returncode == 0
    assert len(json.loads((project.path / "leakguard-baseline.json").read_text())["known"]) == 1
    assert project.run_alone(*workers).returncode == 0
    project.write("import pytest\n@pytest.mark.limit_gpu_leaks('x')\ndef test_it(): pass")
    done = project.run_alone(*workers)
    assert "'x' is not a size" in done.stdout


def test_a_rerun_is_checked_afresh(project: PluginWorld) -> None:
    pytest.importorskip("pytest_rerunfailures", reason="pip install pytest-rerunfailures")
    project.write("""
        import pytest, torch

        KEPT, ATTEMPTS = [], []

        @pytest.fixture
        def attempt():
            ATTEMPTS.append(1)
            return len(ATTEMPTS)

        @pytest.mark.limit_gpu_leaks("0 B", repeats=2)
        def test_leaks_at_first(attempt):
            if attempt < 3:
                KEPT.append(torch.zeros(100))

        @pytest.mark.limit_gpu_leaks("0 B", repeats=2)
        def test_leaks_always():
            KEPT.append(torch.zeros(100))
    """)
    result = project.run("-p", "pytest_rerunfailures", "--reruns=2", "--leakguard-json=leaks.json")
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["failed"], outcomes["rerun"]) == (1, 1, 4)
    assert project.statuses() == {"test_leaks_at_first": "clean", "test_leaks_always": "leak"}


def test_coroutines_are_repeated_in_their_loop(project: PluginWorld) -> None:
    pytest.importorskip("pytest_asyncio", reason="pip install pytest-asyncio")
    project.write("""
        import asyncio

        import pytest, pytest_asyncio, torch

        KEPT = []

        @pytest_asyncio.fixture
        async def data():
            await asyncio.sleep(0)
            yield torch.ones(100)

        @pytest.mark.asyncio
        @pytest.mark.limit_gpu_leaks("0 B", repeats=3)
        async def test_leaks(data):
            await asyncio.sleep(0)
            KEPT.append(data * 2)

        @pytest.mark.asyncio
        @pytest.mark.limit_gpu_leaks("0 B", repeats=3)
        async def test_is_clean(data):
            await asyncio.sleep(0)
            (data * 2).sum()

        @pytest.mark.asyncio
        async def test_unmarked(data):
            KEPT.append(data * 2)
    """)
    options = ("-p", "pytest_asyncio.plugin", "-W", "ignore", "--leakguard")
    result = project.run(*options)
    result.assert_outcomes(passed=1, failed=2)
    assert failure_of(result, "test_leaks")[0].startswith("LEAK  cpu grows 400 B a run")


def test_the_order_of_tests_does_not_matter(project: PluginWorld) -> None:
    pytest.importorskip("pytest_randomly", reason="pip install pytest-randomly")
    project.write("""
        import pytest, torch

        KEPT, LAZY = [], {}
        pytestmark = pytest.mark.limit_gpu_leaks("0 B")

        @pytest.mark.parametrize("n", range(6))
        def test_is_clean(n):
            LAZY.setdefault("table", torch.arange(1000.0))

        @pytest.mark.parametrize("n", range(2))
        def test_leaks(n):
            KEPT.append(torch.zeros(100))
    """)
    for seed in (1, 2, 3):
        result = project.run("-p", "pytest_randomly", f"--randomly-seed={seed}")
        result.assert_outcomes(passed=6, failed=2)
