"""Which sheets a value is drawn on."""

from __future__ import annotations

from leakguard.memory_snapshot import Snapshot, SnapshotDiff
from leakguard.render.memory_sheets import memory_diff_sheets, memory_sheets
from leakguard.render.report_diff_sheets import report_diff_sheets
from leakguard.render.sample_sheets import sample_sheets
from leakguard.render.sheet import Sheet
from leakguard.render.stats_sheets import stats_sheets
from leakguard.render.step_sheets import diff_sheets, table_sheets
from leakguard.render.torch_snapshot_sheets import torch_snapshot_sheets
from leakguard.report_diff import ReportDiff
from leakguard.run_stats import RunStats
from leakguard.step_sample import StepSample
from leakguard.step_table import StepDiff, StepTable
from leakguard.torch_snapshot import TorchSnapshot

__all__ = ["Sheeted", "sheets_of"]

Sheeted = StepTable | StepDiff | Snapshot | SnapshotDiff | ReportDiff | RunStats | StepSample | TorchSnapshot


def sheets_of(value: Sheeted, folder: str | None) -> tuple[Sheet, ...]:
    """The sheets of a value, paths as seen from `folder`."""
    if isinstance(value, StepTable):
        return table_sheets(value)
    if isinstance(value, Snapshot):
        return memory_sheets(value, folder)
    if isinstance(value, SnapshotDiff):
        return memory_diff_sheets(value, folder)
    if isinstance(value, ReportDiff):
        return report_diff_sheets(value, folder)
    if isinstance(value, StepSample):
        return sample_sheets(value)
    if isinstance(value, RunStats):
        return stats_sheets(value, folder)
    if isinstance(value, TorchSnapshot):
        return torch_snapshot_sheets(value, folder)
    return diff_sheets(value, folder)
