"""The pytest plugin where tensors are on a device: what grows, what is a library's workspace, what others take."""

from __future__ import annotations

import pytest

pytest.importorskip("rich", reason="rich, which prints reports, is not installed")

from cuda_world import fakecuda
from plugin_world import PluginWorld, failure_of

pytestmark = pytest.mark.usefixtures("needs_cuda")


def test_growth_on_the_device_fails_with_what_the_allocator_sets_aside(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        KEPT = []

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_leaks():
            KEPT.append(torch.zeros(100, device="cuda"))  # leaks

        @pytest.mark.limit_gpu_leaks("511 B")
        def test_is_within_what_was_asked_for():
            KEPT.append(torch.zeros(100, device="cuda"))
    """)
    result = project.run("--leakguard-json=leaks.json")
    result.assert_outcomes(failed=1, passed=1)
    assert failure_of(result, "test_leaks")[0].startswith("LEAK  cuda:0 grows 512 B a run")
    (finding,) = project.findings()["test_leaks"]
    assert finding["allocated_at"]["line"] == project.line("leaks")


def test_steps_on_the_device_fail_in_one_run(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_loop():
            model = torch.nn.Linear(8, 8, device="cuda")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            history = []
            for _ in range(24):
                optimizer.zero_grad()
                loss = model(torch.ones(2, 8, device="cuda")).sum()
                loss.backward()
                optimizer.step()
                history.append(loss.detach() * 2)  # leaks
    """)
    project.run("--leakguard-json=leaks.json").assert_outcomes(failed=1)
    (finding,) = project.findings()["test_loop"]
    assert finding["device"] == "cuda:0"
    assert finding["allocated_at"]["line"] == project.line("leaks")
    assert project.runs() == {"test_loop": 1}


def test_workspaces_and_the_start_of_cuda_are_no_leaks(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        def multiply():
            a = torch.ones(64, 64, device="cuda")
            (a @ a).sum()

        @pytest.mark.limit_gpu_leaks("0 B", repeats=1)
        def test_first_use_of_a_library_without_a_repeat():
            multiply()

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_a_workspace_for_each_stream():
            with torch.cuda.stream(torch.cuda.Stream()):
                multiply()
            torch.cuda.synchronize()

        def test_unmarked(gpu_leaks):
            gpu_leaks.assert_released(multiply)
    """)
    project.run("--leakguard").assert_outcomes(passed=3)


def test_the_peak_of_the_device_is_what_counts_there(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        @pytest.mark.limit_gpu_memory("1 MiB")
        def test_much_on_the_host_and_little_on_the_device():
            torch.zeros(1_000_000)
            torch.zeros(1000, device="cuda")

        @pytest.mark.limit_gpu_memory("1 MiB")
        def test_much_on_the_device():
            torch.zeros(1_000_000, device="cuda")
    """)
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    assert failure_of(result, "test_much_on_the_device")[0].startswith("MEMORY  cuda:0 had 3.81 MiB more")


@pytest.mark.skipif(not fakecuda.active, reason="no other process to command on a real GPU")
def test_what_another_process_takes_of_the_device_does_not_count(project: PluginWorld) -> None:
    project.write("""
        import fakecuda, pytest, torch

        TAKEN = []

        @pytest.mark.limit_gpu_leaks("0 B")
        @pytest.mark.limit_gpu_memory("1 MiB")
        def test_while_another_grows():
            TAKEN.append(1)
            fakecuda.set_foreign_bytes(0, len(TAKEN) << 28)
            torch.zeros(1000, device="cuda")
    """)
    try:
        project.run("--leakguard").assert_outcomes(passed=1)
    finally:
        fakecuda.set_foreign_bytes(0, 0)


def test_a_block_that_a_stream_still_uses_is_no_leak(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_copies_on_a_side_stream():
            stream = torch.cuda.Stream()
            data = torch.zeros(1000, device="cuda")
            with torch.cuda.stream(stream):
                data.sum()
            data.record_stream(stream)

        @pytest.mark.limit_gpu_leaks("0 B")
        def test_pinned_memory():
            torch.zeros(1000).pin_memory().to("cuda", non_blocking=True)
    """)
    project.run().assert_outcomes(passed=2)


def test_what_is_left_on_the_device_is_charged_to_its_test(project: PluginWorld) -> None:
    project.write("""
        import torch

        CACHE = {}

        def test_caches():
            CACHE["table"] = torch.zeros(1000, device="cuda")

        def test_clean():
            torch.zeros(1000, device="cuda")
    """)
    project.run("--leakguard", "--leakguard-json=leaks.json").assert_outcomes(passed=2)
    (left,) = project.json()["left_behind"]
    assert (left["device"], left["bytes"], left["owner"]["test"]) == (
        "cuda:0",
        4000,
        "test_it.py::test_caches",
    )
