"""Workspaces that torch keeps are named from its own tables, not by their size."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch")


def multiply() -> None:
    x = torch.ones(32, 32, device="cuda")
    x @ x
    torch.nn.functional.linear(x, x, x[0])


def test_a_workspace_for_each_thread_and_stream(cuda):
    from leakguard._native import core

    torch._C._cuda_clearCublasWorkspaces()
    assert cuda.known_residents() == []
    multiply()
    with torch.cuda.stream(torch.cuda.Stream()):
        multiply()
    thread = threading.Thread(target=multiply)
    thread.start()
    thread.join()
    residents = dict(cuda.known_residents())
    assert len(residents) >= 3
    assert set(residents.values()) <= {"cuBLAS workspace", "cuBLASLt workspace"}
    live = {block[0]: block[1] for block in core.blocks()}
    assert set(residents) <= set(live)
    # As large as a workspace, and none.
    same_size = torch.empty(max(live[a] for a in residents), dtype=torch.uint8, device="cuda")
    assert same_size.data_ptr() not in dict(cuda.known_residents())
    torch._C._cuda_clearCublasWorkspaces()
    assert cuda.known_residents() == []


def test_a_leak_at_the_workspace_s_line_is_no_workspace(cuda):
    import leakguard

    torch._C._cuda_clearCublasWorkspaces()  # the next multiplication makes one, at its own line

    def keeps_products() -> None:
        kept = []
        for _ in range(24):
            x = torch.ones(32, 32, device="cuda")
            kept.append(x @ x)
            leakguard.step()

    with leakguard.watch(on_exit="never") as guard:
        keeps_products()  # when it returns, only the workspace is left of that line
    report = guard.report()
    assert report.status == "leak", str(report)
    (finding,) = report.findings
    assert finding.verdict == "growing"
    assert finding.allocated_at.expression == "x @ x"
    assert finding.retained_by[0].name == "kept"
