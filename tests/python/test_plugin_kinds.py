"""Kinds of tests: with fixtures, in classes, of unittest, and those that do not pass anyway."""

from __future__ import annotations

import pytest
from plugin_world import PluginWorld, failure_of


def test_fixtures_are_set_up_once_for_all_the_runs(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        EVENTS = []

        @pytest.fixture
        def model():
            EVENTS.append("up")
            yield torch.nn.Linear(4, 4)
            EVENTS.append("down")

        @pytest.fixture(scope="module")
        def data():
            EVENTS.append("data")
            return torch.ones(2, 4)

        @pytest.mark.limit_gpu_leaks("0 B", warmup=3, repeats=4)
        def test_body(model, data, tmp_path):
            EVENTS.append("run")
            model(data).sum().backward()

        def test_events():
            assert EVENTS == ["data", "up", "run", "run", "run", "run", "down"]
    """)
    project.run().assert_outcomes(passed=2)


def test_what_a_body_adds_to_a_fixture_that_lives_on_is_found_there(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        @pytest.fixture
        def history():
            return []

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_adds(history):
            history.append(torch.zeros(100))
    """)
    result = project.run()
    result.assert_outcomes(failed=1)
    assert "list, 11 items" in "\n".join(failure_of(result, "test_adds"))


def test_what_is_undone_after_the_test_is_no_leak(project: PluginWorld) -> None:
    project.write("""
        import unittest

        import pytest, torch

        STATE = {}
        pytestmark = pytest.mark.limit_gpu_leaks("0 B")

        def test_patches(monkeypatch):
            monkeypatch.setitem(STATE, "table", torch.zeros(100))

        @pytest.fixture
        def undo(request):
            return lambda tensor: request.addfinalizer(tensor.sum)

        def test_finalizers(undo):
            undo(torch.zeros(100))

        class TestIt(unittest.TestCase):
            def test_cleanups(self):
                self.addCleanup(print, torch.zeros(100))

        def test_keeps_all_the_same(monkeypatch, kept=[]):
            monkeypatch.setitem(STATE, "table", torch.zeros(100))
            kept.append(torch.zeros(100))
    """)
    result = project.run("--leakguard-json=leaks.json")
    result.assert_outcomes(passed=3, failed=1)
    assert project.statuses()["test_keeps_all_the_same"] == "leak"


def test_each_parameter_is_a_test_of_its_own(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        KEPT = []

        @pytest.mark.limit_gpu_leaks("0 B")
        @pytest.mark.parametrize("keep", [False, True])
        @pytest.mark.parametrize("size", [1, 100])
        def test_body(keep, size):
            tensor = torch.zeros(size)
            if keep:
                KEPT.append(tensor)

        @pytest.mark.parametrize("size", [10, pytest.param(20, marks=pytest.mark.limit_gpu_leaks("0 B"))])
        def test_one_is_marked(size):
            KEPT.append(torch.zeros(size))
    """)
    project.run().assert_outcomes(passed=3, failed=3)


def test_markers_of_classes_and_modules_hold_for_all_in_them_and_the_closest_wins(
    project: PluginWorld,
) -> None:
    project.write("""
        import pytest, torch

        pytestmark = pytest.mark.limit_gpu_leaks("0 B")
        KEPT = []

        def test_of_the_module():
            KEPT.append(torch.zeros(100))

        @pytest.mark.limit_gpu_leaks("400 B")
        class TestIt:
            def test_of_the_class(self):
                KEPT.append(torch.zeros(100))

            @pytest.mark.limit_gpu_leaks("399 B")
            def test_of_its_own(self):
                KEPT.append(torch.zeros(100))
    """)
    project.run("--leakguard-json=leaks.json").assert_outcomes(passed=1, failed=2)
    assert project.statuses() == {
        "test_of_the_module": "leak",
        "test_of_the_class": "clean",
        "test_of_its_own": "leak",
    }


def test_an_instance_is_shared_by_the_runs_of_a_method(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        class TestIt:
            @pytest.mark.limit_gpu_leaks("0 B", repeats=4)
            def test_it(self):
                self.kept = getattr(self, "kept", []) + [torch.zeros(100)]
    """)
    project.run().assert_outcomes(failed=1)


def test_unittest_methods_are_repeated_between_set_up_and_tear_down(project: PluginWorld) -> None:
    project.write("""
        import unittest

        import pytest, torch

        EVENTS, KEPT = [], []

        class TestIt(unittest.TestCase):
            def setUp(self):
                EVENTS.append("up")
                self.data = torch.ones(10)

            def tearDown(self):
                EVENTS.append("down")

            @pytest.mark.limit_gpu_leaks("0 B", repeats=2)
            def test_a_clean(self):
                EVENTS.append("run")
                self.assertEqual(self.data.sum().item(), 10)

            def test_b_events(self):
                self.assertEqual(EVENTS[:-1], ["up", "run", "run", "down"])

            @pytest.mark.limit_gpu_leaks("0 B", repeats=2)
            def test_c_leaks(self):
                KEPT.append(self.data * 2)

            @pytest.mark.limit_gpu_memory("100 B")
            def test_d_takes_much(self):
                torch.zeros(100)

            @unittest.skip("never")
            @pytest.mark.limit_gpu_leaks("0 B")
            def test_e_skipped(self):
                raise AssertionError

            @unittest.expectedFailure
            @pytest.mark.limit_gpu_leaks("0 B")
            def test_f_expected(self):
                self.fail()

        class TestAsync(unittest.IsolatedAsyncioTestCase):
            @pytest.mark.limit_gpu_leaks("0 B", repeats=2)
            async def test_leaks(self):
                KEPT.append(torch.zeros(100))

            @pytest.mark.limit_gpu_leaks("0 B", repeats=2)
            async def test_clean(self):
                torch.zeros(100)
    """)
    result = project.run("--leakguard-json=leaks.json")
    result.assert_outcomes(passed=3, failed=3, skipped=1, xfailed=1)
    assert failure_of(result, "TestIt.test_c_leaks")[0].startswith("LEAK  cpu grows 40 B a run")
    assert failure_of(result, "TestIt.test_d_takes_much")[0].startswith("MEMORY  cpu had 400 B more")
    assert failure_of(result, "TestAsync.test_leaks")[0].startswith("LEAK  cpu grows 400 B a run")


def test_a_coroutine_that_no_plugin_runs_is_refused_as_ever(project: PluginWorld) -> None:
    project.write("""
        import pytest

        @pytest.mark.limit_gpu_leaks("0 B")
        async def test_it():
            pass
    """)
    result = project.run()
    assert result.ret in (0, 1)  # pytest 7 skips such a test, later ones fail it
    result.stdout.fnmatch_lines(["*async def functions are not natively supported*"])


@pytest.mark.parametrize("option", ["", "--leakguard"])
def test_what_does_not_pass_ends_as_ever_and_is_run_once(option: str, project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        KEPT, RUNS = [], []
        pytestmark = pytest.mark.limit_gpu_leaks("0 B")

        def keep():
            RUNS.append(1)
            KEPT.append(torch.zeros(100))

        def test_fails():
            local = torch.zeros(1000)
            keep()
            assert local.sum() > 0

        def test_skips():
            keep()
            pytest.skip("for a reason")

        def test_xfails():
            keep()
            pytest.xfail("for a reason")

        @pytest.mark.xfail(reason="known")
        def test_expected():
            keep()
            raise ValueError

        @pytest.fixture
        def broken():
            keep()
            raise ValueError

        def test_setup_fails(broken):
            pass

        @pytest.mark.skip_leak_check(reason="looks at RUNS")
        @pytest.mark.limit_gpu_leaks("1 GiB", repeats=1)
        def test_runs():
            assert len(RUNS) == 5
    """)
    result = project.run(*filter(None, [option]))
    result.assert_outcomes(failed=1, skipped=1, xfailed=2, errors=1, passed=1)
    assert any("assert local.sum() > 0" in line for line in failure_of(result, "test_fails"))


def test_a_test_that_is_expected_to_leak_is_an_expected_failure(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        KEPT = []

        @pytest.mark.xfail(strict=True, reason="known leak")
        @pytest.mark.limit_gpu_leaks("0 B")
        def test_leaks():
            KEPT.append(torch.zeros(100))
    """)
    project.run().assert_outcomes(xfailed=1)


def test_a_body_that_cannot_be_repeated_says_so(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_makes_a_folder(tmp_path):
            torch.zeros(100)
            (tmp_path / "out").mkdir()
    """)
    result = project.run()
    result.assert_outcomes(failed=1)
    text = "\n".join(failure_of(result, "test_makes_a_folder"))
    assert "FileExistsError" in text
    assert "leakguard: raised in run 2 of the test body" in text
    assert "with repeats=1 it is run once" in text


def test_the_traceback_of_a_failed_test_is_no_leak_of_the_next_one(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        def test_a_fails():
            local = torch.zeros(1000)
            raise ValueError

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_b_catches():
            local = torch.zeros(1000)
            with pytest.raises(ValueError) as caught:
                raise ValueError(local)
            assert caught.value.args[0] is local

        @pytest.mark.limit_gpu_leaks("0 B", repeats=1)
        def test_c_is_clean():
            torch.zeros(1000)
    """)
    result = project.run("--leakguard")
    result.assert_outcomes(failed=1, passed=2)
    assert "left behind" not in result.stdout.str()


def test_a_doctest_is_left_alone(project: PluginWorld) -> None:
    project.pytester.makepyfile(module='"""\n>>> import torch\n>>> kept = torch.zeros(10)\n"""')
    project.run("--leakguard", "--doctest-modules").assert_outcomes(passed=1)


def test_threads_and_lazy_initialisation_are_no_leaks(project: PluginWorld) -> None:
    project.write("""
        import queue, threading

        import pytest, torch

        @pytest.fixture(scope="module")
        def loader():
            ready, stop = queue.Queue(maxsize=4), threading.Event()

            def work():
                while not stop.is_set():
                    try:
                        ready.put(torch.ones(16), timeout=0.01)
                    except queue.Full:
                        pass

            thread = threading.Thread(target=work)
            thread.start()
            yield ready
            stop.set()
            thread.join()

        @pytest.mark.limit_gpu_leaks("0 B")
        @pytest.mark.parametrize("n", range(5))
        def test_takes_a_batch(loader, n):
            assert loader.get().sum() == 16
            torch.fft.fft(torch.ones(64))
    """)
    project.run().assert_outcomes(passed=5)
