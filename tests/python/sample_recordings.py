"""Recordings as a run might make them, for the tests of pages."""

from __future__ import annotations

from dataclasses import replace

from sample_reports import HOSTILE_NAME, MIB, PROJECT, REPORTS, TRAIN
from sample_tables import FORWARD, GONE, LATER, SNAPSHOT, TABLE, alive
from sample_tables import HOSTILE as HOSTILE_SITE

from leakguard.memory_snapshot import DeviceMemory, Snapshot
from leakguard.recording import Recording, SourceLines
from leakguard.report import Place, Steps
from leakguard.step_table import StepDiff, StepRow, StepTable

SOURCES = (
    SourceLines(
        file=TRAIN,
        first=39,
        lines=(
            "    def forward(self, x):",
            "",
            "        h = F.relu(self.fc1(x))",
            "        return self.fc2(h)",
        ),
    ),
)
FULL = Recording(
    report=REPORTS["leak"],
    table=TABLE,
    snapshot=SNAPSHOT,
    sources=SOURCES,
    command="train.py --epochs 3",
    began=1760000000.0,
    growth=StepDiff(from_step=4, to_step=40, sites=(FORWARD, *[GONE] * 12, HOSTILE_SITE)),
)
EARLIER = Recording(report=REPORTS["several"], table=TABLE, snapshot=LATER, command="train.py --epochs 2")

BREAKING = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028 ' \" & `${alert(3)}`"
HOSTILE = Recording(
    report=REPORTS["hostile"],
    table=StepTable(
        steps=Steps(count=2), rows=tuple(replace(row, device=BREAKING) for row in TABLE.rows[:2])
    ),
    snapshot=Snapshot(
        step=2,
        devices=(DeviceMemory(device=BREAKING),),
        groups=(
            replace(
                alive(
                    Place(file=f"{PROJECT}/{BREAKING}", line=1, function=BREAKING, module=f"a.{BREAKING}"),
                    [512, 1024],
                ),
                device=BREAKING,
            ),
            alive(
                Place(file=HOSTILE_NAME, line=2, function=HOSTILE_NAME, expression=HOSTILE_NAME), [2048], 9
            ),
        ),
    ),
    sources=(SourceLines(file=f"{PROJECT}/{HOSTILE_NAME}", first=1, lines=(BREAKING, HOSTILE_NAME)),),
    command=BREAKING,
)


def long_run(steps: int, sites: int) -> Recording:
    """A run of many steps and call sites that leaks a little."""
    rows = tuple(
        StepRow(
            first_step=step,
            last_step=step,
            device="cuda:0",
            trough=(900 + step // 50) * MIB + step % 7 * 4096,
            peak=(1400 + step // 50) * MIB + step % 11 * MIB,
            allocated=(910 + step // 50) * MIB,
            consumed=500 * MIB,
            survivors=20 * 1024 + step % 5 * 512,
            change=None if step == 1 else 20 * 1024,
            seconds=0.031,
        )
        for step in range(1, steps + 1)
    )
    groups = tuple(
        alive(
            Place(
                file=f"{PROJECT}/package{site % 23}/layers{site % 101}.py",
                line=site + 1,
                function=f"Layer{site % 57}.forward",
                expression=f"F.linear(x, self.weight_{site})",
                module=f"model.stage{site % 4}.block{site % 12}.layer{site % 40}",
                phase=("forward", "backward", "optimizer")[site % 3],
            ),
            [4096 + 512 * (site % 64)] * (1 + site % 3),
            3 * site,
        )
        for site in range(sites)
    )
    counts = Steps(count=steps, warmup=4, source="optimizer")
    return replace(
        FULL,
        report=replace(REPORTS["several"], steps=counts),
        table=StepTable(steps=counts, rows=rows),
        snapshot=replace(SNAPSHOT, step=steps, groups=groups),
    )


RECORDINGS = {
    "full": FULL,
    "hostile": HOSTILE,
    "no snapshot": replace(FULL, snapshot=None),
    "no steps": replace(FULL, table=None),
    "empty parts": replace(FULL, table=StepTable(steps=Steps()), snapshot=Snapshot(step=0), sources=()),
    **{f"report {name}": Recording(report=report) for name, report in REPORTS.items()},
}
