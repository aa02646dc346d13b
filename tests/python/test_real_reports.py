"""Leaks that people reported, each as a small program, and what has to be said: where, who holds it, what to do."""

from __future__ import annotations

import fnmatch
import gc
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import leakguard
from leakguard import graph_tails
from leakguard.memory_advice import CacheState, cache_advice
from leakguard.report import Report

PROGRAMS = Path(__file__).with_name("real_reports")
CUDA = torch.cuda.is_available()


@dataclass(frozen=True)
class Answer:
    """What the report says. `why` may have `*` for figures and places; `names` are names of links, in their order, as
    many as given; `marked`: whether the first finding stands at the line that ends in `# leaks`."""

    status: str
    verdict: str
    cause: str
    why: str
    fix: str
    names: tuple[str, ...]
    marked: bool = True
    device: str = "cuda:0" if CUDA else "cpu"
    bytes_per_step: float | None = None


DETACH = "add loss.detach() to {}, not the loss itself; loss.item() does it too, and waits for the device"

ANSWERS = {
    "trainer_sums_losses": Answer(
        status="leak",
        verdict="growing",
        cause="attached-loss-total",
        why="local 'tr_loss' in Trainer.train() at trainer_sums_losses.py:* (Tensor, [[]] float32, requires grad) "
        "keeps every step's result and its autograd graph",
        fix=DETACH.format("tr_loss"),
        names=("tr_loss",),
        device="host",
    ),
    "statistic_changed_in_graph": Answer(
        status="leak",
        verdict="growing",
        cause="attached-loss-total",
        why="attribute average_loss (Tensor, [[]] float32, requires grad), reached from module global "
        "statistic_changed_in_graph.stats, keeps every step's result and its autograd graph",
        fix=DETACH.format("average_loss"),
        names=("stats", "average_loss"),
        marked=False,  # add_() makes no block
        device="host",
    ),
    "epoch_outputs_of_scalars": Answer(
        status="leak",
        verdict="growing",
        cause="container-without-limit",
        why="local 'epoch_output' in run_epoch() at epoch_outputs_of_scalars.py:* (list, * items) keeps what "
        "model(torch.rand(8, 16, device=DEVICE)).square().mean() (epoch_outputs_of_scalars.py:*) makes in every step"
        + (", each of 4 B, for which 512 B are set aside" if CUDA else ""),
        fix="keep only what is still needed in epoch_output: the last N, numbers (.item()) in place of tensors, or "
        "nothing that is done with",
        names=("epoch_output", "loss"),
        bytes_per_step=512 if CUDA else 4,
    ),
    "context_without_backward": Answer(
        status="warning",
        verdict="waiting-for-gc",
        cause="context-cycle",
        why="what x * 2 (context_without_backward.py:*) makes is left in reference cycles, garbage that waits for the "
        "collector",
        fix="use ctx.save_for_backward(...) in place of the attribute: deleting it in backward() does not help where "
        "backward() is never called",
        names=("y",),
        device="cpu",
        bytes_per_step=512,
    ),
    "backward_hook_under_create_graph": Answer(
        status="leak",
        verdict="growing",
        cause="backward-hook-cycle",
        why="what * (backward_hook_under_create_graph.py:*) makes is left in reference cycles that the collector can "
        "never free",
        fix="remove the full backward hook while create_graph is on, or use a hook on the tensor "
        "(tensor.register_hook); setting .grad to None does not break this cycle",
        names=("node_hook", "grad_outputs"),
        device="cpu",
        bytes_per_step=512,
    ),
    "replaced_forward_methods": Answer(
        status="warning",
        verdict="waiting-for-gc",
        cause="bound-method-cycle",
        why="what torch.rand(64, 64) (replaced_forward_methods.py:*) makes is left in reference cycles, garbage that "
        "waits for the collector",
        fix="take the stored method away before the object is dropped (del layer.forward), store a "
        "weakref.WeakMethod, or call gc.collect() after dropping it",
        names=("forward", "forward", "layer", "weight"),
        device="cpu",
        bytes_per_step=64 * 64 * 4,
    ),
    "reports_of_chained_errors": Answer(
        status="leak",
        verdict="growing",
        cause="exception-traceback",
        why="module global reports_of_chained_errors.reports (list, * items) keeps what model(batch) "
        "(reports_of_chained_errors.py:*) makes in every step",
        fix="keep str(error) or traceback.format_exception(error), not the exception itself: it keeps the frames of "
        "its __context__ and __cause__ too",
        names=("reports", "__context__", "logits"),
        device="cpu",
        bytes_per_step=32 * (256 + 16) * 4,
    ),
    "meter_beside_loader_workers": Answer(
        status="leak",
        verdict="growing",
        cause="attached-loss-total",
        why="attribute sum (Tensor, [[]] float32, requires grad), reached from local 'meter' in main() at "
        "meter_beside_loader_workers.py:*, keeps every step's result and its autograd graph",
        fix=DETACH.format("sum"),
        names=("meter", "sum"),
        device="host",
    ),
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Report]]:
    """Runs a program as a module of its own, watched; the report is made when it has ended."""
    # Whatever else this process frees meanwhile must not hide the rise of its heap.
    monkeypatch.setattr(graph_tails, "SUSPICIOUS_BYTES", float("-inf"))
    modules: list[types.ModuleType] = []
    thresholds = gc.get_threshold()

    def run(name: str) -> Report:
        file = PROGRAMS / f"{name}.py"
        module = types.ModuleType(name)
        module.__file__ = str(file)
        modules.append(module)
        monkeypatch.setitem(sys.modules, name, module)
        gc.collect()
        gc.set_threshold(10**6)  # when the collector runs by itself hangs on what else this process makes
        with leakguard.watch(on_exit="never") as guard:
            exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), module.__dict__)
            return guard.report()

    yield run
    for module in modules:
        module.__dict__.clear()
    gc.unfreeze()
    gc.enable()
    gc.set_threshold(*thresholds)
    gc.collect()


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_said_of_it(name: str, run: Callable[[str], Report]) -> None:
    answer = ANSWERS[name]
    report = run(name)
    assert report.status == answer.status, str(report)
    first = report.findings[0]
    assert (first.verdict, first.cause, first.device) == (answer.verdict, answer.cause, answer.device), str(
        report
    )
    assert fnmatch.fnmatchcase(first.why, answer.why), first.why
    assert first.fix == report.next == answer.fix
    assert {finding.cause for finding in report.findings} == {answer.cause}, str(report)
    names = [link.name for link in first.retained_by if link.name in answer.names]
    assert names == list(answer.names), str(report)
    if answer.bytes_per_step is not None:
        assert first.bytes_per_step == answer.bytes_per_step
    lines = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8").splitlines()
    at = first.allocated_at.line
    marked = [number for number, line in enumerate(lines, 1) if line.endswith("# leaks")]
    assert (at in marked) == answer.marked, str(report)


def test_numbers_that_pile_up_are_no_finding_about_tensors(run: Callable[[str], Report]) -> None:
    report = run("numbers_behind_gc_freeze")
    assert (report.status, report.findings) == ("clean", ()), str(report)


def test_memory_beside_the_allocator_is_told_with_what_makes_it() -> None:
    """A rollout of many steps is captured: the executable takes gigabytes of which the allocator knows nothing."""
    state = CacheState(
        device="cuda:0", allocated=0, reserved=220 * 2**20, active=0, outside=round(8.4 * 2**30)
    )
    (advice,) = (advice for advice in cache_advice(state) if advice.topic == "outside the allocator")
    assert "8.40 GiB of cuda:0 are in use outside torch's allocator" in advice.text
    assert "the executables of captured graphs (by nodes, not by tensors)" in advice.text


def test_every_program_is_run() -> None:
    assert {file.stem for file in PROGRAMS.glob("*.py")} == ANSWERS.keys() | {"numbers_behind_gc_freeze"}
