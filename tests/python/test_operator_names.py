"""`detail="ops"`: blocks carry the operator that made them, and in backward the autograd node as ever."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from real_world import LEAKING, World  # noqa: E402

import leakguard  # noqa: E402
from leakguard._native import core  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def name_of(tensor: torch.Tensor) -> str:
    """What the ledger calls the maker of a tensor's block."""
    (name,) = (block[6] for block in core.blocks() if block[0] == tensor.untyped_storage().data_ptr())
    return name


def test_the_operator_that_the_program_called():
    x = torch.ones(16, 16, device=DEVICE, requires_grad=True)
    with leakguard.watch(detail="ops", on_exit="never"):
        hidden = torch.nn.functional.linear(x, x)  # calls addmm or matmul, which call empty
        y = torch.relu(hidden)
        y.sum().backward()
        assert name_of(hidden) == "aten::linear"
        assert name_of(y) == "aten::relu"
        assert name_of(x.grad).endswith("Backward0")


def test_no_name_without_being_asked():
    with leakguard.watch(on_exit="never"):
        assert name_of(torch.ones(16, device=DEVICE)) == ""


def test_names_end_with_the_guard():
    with leakguard.watch(detail="ops", on_exit="never"):
        pass
    with leakguard.watch(on_exit="never"):
        assert name_of(torch.ones(16, device=DEVICE)) == ""
    with leakguard.watch(detail="ops", on_exit="never"):
        assert name_of(torch.ones(16, device=DEVICE)) == "aten::ones"


def test_an_operator_that_fails_leaves_no_name_behind():
    with leakguard.watch(detail="ops", on_exit="never"):
        with pytest.raises(RuntimeError):
            torch.matmul(torch.ones(2, 3, device=DEVICE), torch.ones(2, 3, device=DEVICE))
        assert name_of(torch.zeros(16, device=DEVICE)) == "aten::zeros"


def test_switched_on_and_off_inside_an_operator():
    """A saved tensor's hook runs Python inside the operator that saves."""
    guards: list[leakguard.Guard] = []

    def begin(tensor: torch.Tensor) -> torch.Tensor:
        guards.append(leakguard.watch(detail="ops", on_exit="never"))
        return tensor

    def end(tensor: torch.Tensor) -> torch.Tensor:
        for guard in guards:
            guard.stop()
        return tensor

    x = torch.ones(16, device=DEVICE, requires_grad=True)
    for pack in (begin, end):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            x.exp()
    with leakguard.watch(detail="ops", on_exit="never"):
        assert name_of(torch.ones(16, device=DEVICE)) == "aten::ones"


def test_a_finding_names_it():
    kept = []
    with leakguard.watch(detail="ops", on_exit="never") as guard:
        for _ in range(14):
            kept.append(torch.randn(1000, device=DEVICE))
            leakguard.step()
        report = guard.report()
    assert [finding.allocated_at.op for finding in report.findings] == ["aten::randn"]


@pytest.mark.parametrize("detail", ["op", "", None, "OPS"])
def test_other_details_are_refused(detail: object):
    with pytest.raises(ValueError, match='"lines" or "ops"'):
        leakguard.watch(detail=detail)  # type: ignore[arg-type]


def test_from_the_command_line(tmp_path: Path):
    pytest.importorskip("rich", reason="rich, which prints reports, is not installed")
    world = World(tmp_path)
    script = world.write(LEAKING, "main(14)")
    world.run("--detail", "ops", str(script))
    (finding,) = world.report()["findings"]
    assert finding["allocated_at"]["op"] == "aten::zeros"
