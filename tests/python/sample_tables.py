"""Step tables and comparisons as a run might make them, for the tests of every view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sample_reports import HISTORY, HOSTILE_NAME, MIB, PROJECT, REPORTS, TOTAL, TRAIN

from leakguard.memory_snapshot import Counter, DeviceMemory, LiveGroup, Snapshot
from leakguard.recording import Recording
from leakguard.recording_diff import compare_recordings
from leakguard.report import Place, Steps
from leakguard.report_diff import compare
from leakguard.run_stats import stats_of
from leakguard.step_table import SiteChange, StepDiff, StepRow, StepTable
from leakguard.torch_snapshot import Growing, History, PrivatePool, Reserved, TorchSnapshot

STEPS = Steps(count=40, warmup=4, source="optimizer")


def row(step: int, device: str = "cuda:0", survivors: int = 3 * MIB // 2) -> StepRow:
    return StepRow(
        first_step=step,
        last_step=step,
        device=device,
        trough=(20 + step) * MIB,
        peak=(60 + step) * MIB,
        allocated=(22 + step) * MIB,
        consumed=44 * MIB,
        survivors=survivors,
        change=MIB if step > 1 else None,
        seconds=0.0123 if step > 1 else None,
        found=0 if device == "cpu" else survivors // 2,
        reserved=None if device == "cpu" else (70 + step // 8 * 8) * MIB,
    )


TABLE = StepTable(steps=STEPS, rows=(*map(row, range(1, 41)), row(40, "cpu", 0)))

FORWARD = SiteChange(
    device="cuda:0",
    place=Place(
        file=TRAIN,
        line=41,
        function="Net.forward",
        expression="F.relu(self.fc1(x))",
        module="encoder.fc1",
        phase="forward",
    ),
    bytes=30 * MIB,
    blocks=20,
    live_bytes=57 * MIB,
    live_blocks=38,
    survivor_bytes=30 * MIB,
    survivor_blocks=20,
)
GONE = SiteChange(
    device="cpu",
    place=Place(file=TRAIN, line=12, function="load"),
    bytes=-3 * MIB,
    blocks=-3,
    live_bytes=0,
    live_blocks=0,
)
HOSTILE = SiteChange(
    device="cpu",
    place=Place(file=f"{PROJECT}/{HOSTILE_NAME}", line=1, function=HOSTILE_NAME, module="<b>&amp;"),
    bytes=1024,
    blocks=1,
    live_bytes=1024,
    live_blocks=1,
)


def alive(place: Place, sizes: list[int], first: int = 0, **facts: Any) -> LiveGroup:
    return LiveGroup(
        device="cuda:0",
        place=place,
        requested_bytes=sum(sizes),
        keys=tuple((4096 * (first + number), first + number, size) for number, size in enumerate(sizes)),
        **facts,
    )


SMALL = [alive(Place(file=TRAIN, line=100 + line, function="main"), [512], 1000 + line) for line in range(15)]
SNAPSHOT = Snapshot(
    step=40,
    devices=(
        DeviceMemory(
            device="cuda:0",
            counters=(
                Counter(name="allocated", current=60 * MIB, peak=71 * MIB, total_allocated=900 * MIB),
                Counter(name="allocated", pool="large", current=59 * MIB, peak=70 * MIB),
                Counter(name="inactive split", current=0, peak=MIB, total_allocated=2 * MIB, total_freed=MIB),
            ),
            outside_allocator_bytes=300 * MIB,
        ),
        DeviceMemory(device="cpu", counters=(Counter(name="requested", current=0, peak=0),)),
    ),
    groups=(
        alive(
            FORWARD.place,
            [3 * MIB // 2] * 38,
            category="activation",
            holder="module global train.history (list, 38 items)",
            shape="[64, 6144] float32",
        ),
        alive(Place(file=TRAIN, line=12, function="load"), [MIB], 100, private_pool=True),
        alive(
            Place(file=TRAIN, line=12, function="load"), [MIB], 200, category="optimizer_state", pending=True
        ),
        *SMALL,
    ),
)
LATER = Snapshot(
    step=42,
    devices=SNAPSHOT.devices,
    groups=(alive(FORWARD.place, [3 * MIB // 2] * 40, category="activation"), *SMALL[:1]),
)

BEFORE = REPORTS["several"]
AFTER = replace(
    REPORTS["leak"],
    torch="2.14.1",
    findings=(
        replace(HISTORY, bytes_per_step=2.0 * MIB),
        *BEFORE.findings[-1:],
        replace(TOTAL, fingerprint="0ff"),
    ),
)

WHOLE = Recording(
    report=REPORTS["leak"],
    table=TABLE,
    snapshot=SNAPSHOT,
    command="train.py --epochs 3",
    growth=StepDiff(from_step=4, to_step=40, sites=(FORWARD, GONE)),
)

TORCH_SNAPSHOT = TorchSnapshot(
    memory=replace(
        SNAPSHOT,
        devices=(DeviceMemory(device="cuda:0", counters=(Counter(name="allocated", current=60 * MIB),)),),
    ),
    reserved=(
        Reserved(
            device="cuda:0",
            segments=9,
            expandable_segments=2,
            reserved_bytes=80 * MIB,
            free_bytes=20 * MIB,
            largest_free=(5 * MIB, MIB),
            fragmentation=0.75,
        ),
    ),
    pools=(
        PrivatePool(
            device="cuda:0", pool="1.0", segments=1, reserved_bytes=20 * MIB, allocated_bytes=4 * MIB
        ),
    ),
    histories=(
        History(
            device="cuda:0",
            events=100,
            births=60,
            frees=40,
            out_of_memory=1,
            seconds=12.0,
            frees_unexplained=3,
            unborn_blocks=15,
            unborn_bytes=15 * 512,
            placeless_blocks=1,
            placeless_bytes=MIB,
        ),
        History(device="cuda:1", events=0),
    ),
    growing=(Growing(group=0, blocks=38, bytes=57 * MIB, tenths=10),),
    settings=("expandable_segments=True",),
)

MOVED = replace(FORWARD, place=replace(FORWARD.place, file="/elsewhere/train.py", line=47), bytes=60 * MIB)
OTHER_RUN = replace(
    WHOLE,
    report=AFTER,
    snapshot=replace(LATER, groups=(replace(LATER.groups[0], place=MOVED.place), *LATER.groups[1:])),
    table=StepTable(steps=STEPS, rows=tuple(replace(one, peak=2 * one.peak) for one in TABLE.rows)),
    growth=StepDiff(from_step=4, to_step=40, sites=(MOVED,)),
)

TABLES = {
    "recordings": compare_recordings(WHOLE, OTHER_RUN),
    "reports": compare(BEFORE, AFTER),
    "same reports": compare(BEFORE, BEFORE),
    "clean reports": compare(REPORTS["clean"], REPORTS["clean"]),
    "hostile reports": compare(REPORTS["clean"], REPORTS["hostile"]),
    "snapshot": SNAPSHOT,
    "no snapshot": Snapshot(step=0),
    "snapshot diff": SNAPSHOT.diff(LATER),
    "no snapshot diff": SNAPSHOT.diff(SNAPSHOT),
    "stats": stats_of(WHOLE),
    "stats of a report": stats_of(Recording(report=REPORTS["several"])),
    "torch snapshot": TORCH_SNAPSHOT,
    "steps": StepTable(
        steps=STEPS,
        rows=tuple(
            replace(one, backward_seconds=0.0045, optimizer_seconds=0.00078) if one.seconds else one
            for one in TABLE.rows
        ),
    ),
    "no steps": StepTable(steps=Steps()),
    "diff": StepDiff(from_step=20, to_step=40, sites=(FORWARD, GONE)),
    "no diff": StepDiff(from_step=20, to_step=20),
    "diff hostile": StepDiff(from_step=1, to_step=2, sites=(HOSTILE,)),
    "diff many": StepDiff(from_step=1, to_step=2, sites=(GONE,) * 20),
}
