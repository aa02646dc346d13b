"""Bytes a step of small blocks: what the allocator sets aside, for a finding and for its device alike."""

from __future__ import annotations

import pytest
import torch

import leakguard

pytestmark = pytest.mark.usefixtures("needs_cuda")

STEPS = 20


@pytest.mark.parametrize(("numbers", "set_aside"), [(1, 512), (129, 1024), (256, 1024)])
def test_device_and_finding_agree(numbers: int, set_aside: int) -> None:
    kept = []
    with leakguard.watch(on_exit="never") as guard:
        for _ in range(STEPS):
            kept.append(torch.zeros(numbers, device="cuda"))
            leakguard.step()
        report = guard.report()
    (finding,) = report.findings
    (usage,) = (usage for usage in report.devices if usage.device == finding.device)
    assert finding.bytes_per_step == usage.bytes_per_step == set_aside
