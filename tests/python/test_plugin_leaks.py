"""The marker limit_gpu_leaks: which bodies fail, which pass, and how often they are run for it."""

from __future__ import annotations

import gc

from plugin_world import CLEAN, LEAK, PluginWorld, failure_of

from leakguard import guard
from leakguard._native import core


def test_a_body_that_leaves_something_in_every_run_fails_with_line_and_holder(project: PluginWorld) -> None:
    project.write(LEAK)
    result = project.run("--leakguard-json=leaks.json")
    result.assert_outcomes(failed=1)
    failure = "\n".join(failure_of(result, "test_leaks"))
    assert "LEAK  cpu grows 1.00 KiB a run, steadily since run 4 (8 of 11 runs)" in failure
    assert "module global test_it.KEPT" in failure
    (finding,) = project.findings()["test_leaks"]
    assert finding["allocated_at"]["line"] == project.line("leaks")
    assert finding["bytes_per_step"] == 1024
    assert finding["blocks"] == 8
    assert project.runs() == {"test_leaks": 11}


def test_a_clean_body_passes_and_is_run_twice(project: PluginWorld) -> None:
    project.write(CLEAN)
    project.run("--leakguard-json=leaks.json").assert_outcomes(passed=1)
    assert project.runs() == {"test_is_clean": 2}


def test_nothing_is_watched_after_the_session(project: PluginWorld) -> None:
    project.write(LEAK)
    project.run()
    assert not core.watching()
    assert not core.cpu_attached()
    assert guard.current() is None


def test_what_is_made_once_or_replaced_or_turns_in_a_ring_is_no_leak(project: PluginWorld) -> None:
    project.write("""
        import collections, functools, pytest, torch

        LATEST = {}
        RING = collections.deque(maxlen=4)

        @functools.lru_cache(maxsize=None)
        def table():
            return torch.arange(1000.0)

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_lazy():
            table()

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_replaced():
            LATEST["loss"] = torch.zeros(100)

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_ring():
            RING.append(torch.zeros(100))

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_bounded_and_not_yet_full(ring=collections.deque(maxlen=1000)):
            ring.append(torch.zeros(100))
    """)
    project.run("--leakguard-json=leaks.json").assert_outcomes(passed=4)
    assert project.runs()["test_lazy"] == 2
    assert project.runs()["test_replaced"] == 3


def test_cycles_are_collected_before_they_are_blamed(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        class Node:
            def __init__(self):
                self.me, self.data = self, torch.zeros(1000)

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_cycle():
            Node()
    """)
    gc.collect()
    gc.disable()
    try:
        result = project.run()
    finally:
        gc.enable()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["garbage that held tensors until it was collected: 1 test", "*test_cycle*"])


def test_runs_that_do_not_count_are_made_even_when_nothing_happens_in_them(project: PluginWorld) -> None:
    project.write("""
        import itertools, pytest, torch

        KEPT, NUMBER = [], itertools.count(1)

        @pytest.mark.limit_gpu_leaks("0 B", warmup=2, repeats=3)
        def test_leaks_from_the_third_run_on():
            if next(NUMBER) >= 3:
                KEPT.append(torch.zeros(100))

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_once_in_a_while(count=itertools.count(1)):
            if next(count) == 3:
                KEPT.append(torch.zeros(100))
    """)
    project.run("--leakguard-json=leaks.json").assert_outcomes(failed=1, passed=1)
    assert project.runs() == {"test_leaks_from_the_third_run_on": 5, "test_once_in_a_while": 2}


def test_no_full_collection_unless_growth_goes_on(project: PluginWorld) -> None:
    project.write("""
        import collections, gc, pytest, torch

        FULL, LATEST, RING = [], {}, collections.deque(maxlen=3)

        def note(phase, info):
            if phase == "start" and info["generation"] == 2:
                FULL.append(info)

        class Node:
            def __init__(self):
                self.me, self.data = self, torch.zeros(10)

        def test_first():
            gc.collect()
            gc.disable()
            gc.callbacks.append(note)

        def test_unmarked():
            torch.zeros(10)

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_quiet():
            torch.zeros(10)

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_replaced():
            LATEST["loss"] = torch.zeros(10)

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_ring():
            RING.append(torch.zeros(10))

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_young_garbage():
            Node()

        def test_last():
            gc.callbacks.remove(note)
            gc.enable()
            assert not FULL
    """)
    project.run("--leakguard").assert_outcomes(passed=7)


def test_a_loop_whose_hoard_dies_at_its_return_fails_after_one_run(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_loop():
            model = torch.nn.Linear(8, 8)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            history = []
            for _ in range(24):
                optimizer.zero_grad()
                loss = model(torch.ones(2, 8)).sum()
                loss.backward()
                optimizer.step()
                history.append(loss.detach() * 2)  # leaks
    """)
    result = project.run("--leakguard-json=leaks.json")
    result.assert_outcomes(failed=1)
    failure = "\n".join(failure_of(result, "test_loop"))
    assert "local 'history' in test_loop()" in failure
    (finding,) = project.findings()["test_loop"]
    assert finding["allocated_at"]["line"] == project.line("leaks")
    assert project.runs() == {"test_loop": 1}


def test_twenty_clean_steps_need_no_second_run(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_loop():
            model = torch.nn.Linear(8, 8)
            optimizer = torch.optim.Adam(model.parameters())
            for _ in range(24):
                optimizer.zero_grad()
                model(torch.ones(2, 8)).sum().backward()
                optimizer.step()
    """)
    project.run("--leakguard-json=leaks.json").assert_outcomes(passed=1)
    assert project.runs() == {"test_loop": 1}
    assert project.json()["tests"][0]["steps"] == 24


def test_explicit_steps_count(project: PluginWorld) -> None:
    project.write("""
        import leakguard, pytest, torch

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_loop():
            history = []
            for _ in range(24):
                history.append(torch.zeros(100))
                leakguard.step()
    """)
    project.run().assert_outcomes(failed=1)


def test_the_limit_holds_for_a_call_site_and_a_run(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        KEPT = []

        def keep_three_sites():
            KEPT.append(torch.zeros(100))
            KEPT.append(torch.zeros(100))
            KEPT.append(torch.zeros(100))

        @pytest.mark.limit_gpu_leaks("400 B")
        def test_each_site_is_within():
            keep_three_sites()

        @pytest.mark.limit_gpu_leaks("399 B")
        def test_each_site_is_beyond():
            keep_three_sites()
    """)
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    assert "limit 399 B a call site" in failure_of(result, "test_each_site_is_beyond")[-1]


def test_warmup_and_repeats_are_as_the_marker_says(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        KEPT, CALLS = [], []

        @pytest.mark.limit_gpu_leaks("0 B", warmup=2, repeats=3)
        def test_leaks():
            KEPT.append(torch.zeros(100))

        @pytest.mark.limit_gpu_leaks("0 B", warmup=5)
        def test_grows_while_warming_up():
            CALLS.append(torch.zeros(100) if len(CALLS) < 5 else None)

        @pytest.mark.limit_gpu_leaks("0 B", repeats=1)
        def test_before_and_after():
            KEPT.append(torch.zeros(100))
    """)
    result = project.run("--leakguard-json=leaks.json")
    result.assert_outcomes(failed=2, passed=1)
    assert project.runs() == {"test_leaks": 5, "test_grows_while_warming_up": 6, "test_before_and_after": 1}
    assert failure_of(result, "test_before_and_after")[0] == "LEAK  cpu keeps 400 B after the test"


def test_a_filter_drops_findings(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        KEPT = []

        def not_small(finding):
            return finding.bytes_per_step > 1000

        @pytest.mark.limit_gpu_leaks("0 B", filter_fn=not_small)
        def test_small():
            KEPT.append(torch.zeros(10))

        @pytest.mark.limit_gpu_leaks("0 B", filter_fn=not_small)
        def test_large():
            KEPT.append(torch.zeros(1000))
    """)
    project.run().assert_outcomes(passed=1, failed=1)


def test_the_peak_is_limited_too(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        @pytest.fixture
        def large():
            return torch.zeros(100_000)

        @pytest.mark.limit_gpu_memory("4000 B")
        def test_within(large):
            for _ in range(3):
                torch.zeros(1000)

        @pytest.mark.limit_gpu_memory("3999 B")
        def test_beyond(large):
            torch.zeros(1000)
    """)
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    assert failure_of(result, "test_beyond") == [
        "MEMORY  cpu had 3.91 KiB more at once than when the test body began; limit 3.91 KiB"
    ]


def test_the_peak_is_seen_inside_a_loop_of_steps(project: PluginWorld) -> None:
    project.write("""
        import leakguard, pytest, torch

        @pytest.mark.limit_gpu_memory("1 KiB")
        def test_beyond():
            torch.zeros(1000)
            for _ in range(30):
                torch.zeros(10)
                leakguard.step()
    """)
    project.run().assert_outcomes(failed=1)


def test_memory_of_another_process_does_not_count(project: PluginWorld) -> None:
    project.write("""
        import multiprocessing, pytest, torch

        def hoard(sender):
            kept = []
            for _ in range(10):
                kept.append(torch.zeros(1000))
                sender.send(len(kept))

        @pytest.mark.limit_gpu_leaks("0 B")
        @pytest.mark.limit_gpu_memory("1 KiB")
        def test_while_a_child_hoards():
            receiver, sender = multiprocessing.Pipe(False)
            child = multiprocessing.get_context("fork").Process(target=hoard, args=(sender,))
            child.start()
            while receiver.recv() < 10:
                torch.zeros(100)
            child.join()
    """)
    project.run("-W", "ignore").assert_outcomes(passed=1)


def test_what_the_captured_log_keeps_is_no_leak(project: PluginWorld) -> None:
    project.write("""
        import logging, pytest, torch

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_logs(caplog):
            logging.warning("loss %s", torch.ones(100).sum())
            assert len(caplog.records) == 1

        @pytest.mark.limit_gpu_leaks("0 B", repeats=1)
        def test_logs_once():
            logging.warning("loss %s", torch.ones(100).sum())

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_logs_in_a_loop():
            model = torch.nn.Linear(8, 8)
            for _ in range(24):
                loss = model(torch.ones(2, 8)).sum()
                loss.backward()
                logging.warning("loss %s", loss)
    """)
    project.run().assert_outcomes(passed=3)
