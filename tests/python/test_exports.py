"""What other tools are given, read by them or by a reader of their format."""

from __future__ import annotations

import base64
import csv
import io
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from pprof_reading import profile
from sample_reports import HOSTILE_NAME, MIB, REPORTS, TRAIN
from sample_tables import FORWARD, SNAPSHOT, TABLE, alive
from torch_snapshots import modern

from leakguard.cli import main
from leakguard.exports import FORMATS, encode
from leakguard.memory_snapshot import LiveGroup, Snapshot
from leakguard.recording import Recording
from leakguard.report import Place, ReportError
from leakguard.step_table import StepRow, StepTable
from leakguard.torch_snapshot_reader import read_snapshot

RUN = Recording(
    report=REPORTS["several"], table=TABLE, snapshot=SNAPSHOT, command="train.py --epochs 3", began=12.5
)
UNREAL = "/home/\udcff/net.py"  # a name of a file that is not UTF-8
HOSTILE_SHOWN = HOSTILE_NAME.replace("\udc80", "\\udc80")
HOSTILE = replace(
    RUN,
    snapshot=Snapshot(
        step=1,
        groups=(
            alive(Place(file=UNREAL, line=1, function=HOSTILE_NAME, expression='=cmd|"/c"!A1\n'), [512]),
            alive(Place(), [1024], 9),
        ),
    ),
)


def by_place(groups: tuple[LiveGroup, ...]) -> dict[tuple[str | None, int | None, bool, bool], int]:
    return {
        (group.place.file, group.place.line, group.pending, group.private_pool): group.bytes
        for group in groups
    }


def test_memory_viz_holds_every_block() -> None:
    assert SNAPSHOT.groups
    read = read_snapshot(pickle.loads(encode(RUN, "memory-viz")), "it").memory
    assert by_place(read.groups) == by_place(SNAPSHOT.groups)
    assert read.devices[0].current("allocated") == 58 * MIB + 15 * 512


def test_memory_viz_is_accepted_by_torch() -> None:
    viz = pytest.importorskip("torch.cuda._memory_viz")
    data = pickle.loads(encode(RUN, "memory-viz"))
    summary = viz.segsum(data)
    assert f"segments: {len(data['segments'])}\n" in summary
    assert "total_allocated: 58.0MiB" in summary
    assert viz.trace(data).count("TOTAL MEM") == 1
    for plot in (viz.trace_plot(data), viz.trace_plot(data, filter_freed=True), viz.segment_plot(data)):
        shown = plot.partition('"base64": "')[2].partition('"')[0]
        assert pickle.loads(base64.b64decode(shown).rstrip(b"\0"))["segments"] == data["segments"]
    lines: list[str] = []
    viz.memory(data, lambda text: lines.extend(text.splitlines()))
    forward = [line for line in lines if "train.py:41:Net.forward" in line]
    assert sum(int(line.rpartition(" ")[2]) for line in forward) == 57 * MIB


def test_memory_viz_of_several_devices() -> None:
    groups = [replace(alive(FORWARD.place, [512, 512]), device=name) for name in ("cpu", "cuda:1", "pinned")]
    data = pickle.loads(encode(replace(RUN, snapshot=Snapshot(step=1, groups=tuple(groups))), "memory-viz"))
    assert [len(trace) for trace in data["device_traces"]] == [0, 2, 2, 2]
    assert [(one["device"], one["total_size"]) for one in data["segments"]] == [
        (2, 512),
        (2, 512),
        (1, 4096 + 512),
        (3, 512),
        (3, 512),
    ]


def test_pprof_adds_up_by_call_site() -> None:
    read = profile(encode(RUN, "pprof"))
    assert read["types"] == [("inuse_objects", "count"), ("inuse_space", "bytes")]
    assert read["default"] == "inuse_space"
    assert read["time"] == 12_500_000_000
    frames, values, labels = read["samples"][0]
    assert (frames, values) == (((TRAIN, 41, "Net.forward"),), (38, 57 * MIB))
    assert labels == {
        "device": "cuda:0",
        "category": "activation",
        "phase": "forward",
        "module": "encoder.fc1",
    }
    assert sum(size for _, (_, size), _ in read["samples"]) == sum(group.bytes for group in SNAPSHOT.groups)
    assert sum(blocks for _, (blocks, _), _ in read["samples"]) == sum(
        group.blocks for group in SNAPSHOT.groups
    )


def test_pprof_of_two_runs_can_be_subtracted() -> None:
    """By -diff_base: samples of one place are the same frames in both, whatever else they hold."""
    fewer = replace(
        RUN, snapshot=Snapshot(step=1, groups=(alive(FORWARD.place, [MIB] * 3), *SNAPSHOT.groups[5:]))
    )
    before, after = profile(encode(fewer, "pprof")), profile(encode(RUN, "pprof"))
    assert before["types"] == after["types"]
    left = {frames: values for frames, values, _ in after["samples"]}
    assert {frames for frames, *_ in before["samples"]} <= left.keys()


def test_pprof_names_the_library_inside() -> None:
    place = replace(FORWARD.place, via="/lib/python3.11/site-packages/fancy/loop.py:7 in Trainer.fit")
    (one,) = profile(encode(replace(RUN, snapshot=Snapshot(step=1, groups=(alive(place, [8]),))), "pprof"))[
        "samples"
    ]
    assert one[0] == (
        ("/lib/python3.11/site-packages/fancy/loop.py", 7, "Trainer.fit"),
        (TRAIN, 41, "Net.forward"),
    )


def test_chrome_trace() -> None:
    events = json.loads(encode(RUN, "chrome"))["traceEvents"]
    steps = [event for event in events if event["ph"] == "X"]
    assert [step["name"] for step in steps] == [f"step {number}" for number in range(1, 41)]
    assert steps[0]["args"] == {"duration": "not known"}
    assert steps[1]["args"] == {}
    for one, following in zip(steps, steps[1:], strict=False):
        assert one["dur"] == pytest.approx(12300)
        assert one["ts"] + one["dur"] == pytest.approx(following["ts"])
    counters: dict[str, list[int]] = {}
    for event in events:
        if event["ph"] == "C":
            counters.setdefault(event["name"], []).append(event["args"]["bytes"])
    assert set(counters) == {
        f"{device} {figure}"
        for device in ("cuda:0", "cpu")
        for figure in ("allocated", "peak", "trough", "consumed", "survivors")
    }
    assert counters["cuda:0 allocated"] == [row.allocated for row in TABLE.of("cuda:0")]
    assert counters["cuda:0 peak"] == [row.peak for row in TABLE.of("cuda:0")]
    marks = [event for event in events if event["ph"] == "i"]
    assert {mark["args"]["fingerprint"] for mark in marks} == {
        finding.fingerprint for finding in REPORTS["several"].findings if finding.first_step
    }
    assert [event["args"]["name"] for event in events if event["ph"] == "M"] == [
        "leakguard train.py --epochs 3",
        "steps",
    ]


def test_chrome_trace_of_rows_of_several_steps() -> None:
    thinned = TABLE.thinned(10)
    fine = tuple(row for row in TABLE.rows if row.device == "cpu")
    table = StepTable(steps=TABLE.steps, rows=(*thinned.of("cuda:0"), *fine))
    events = json.loads(encode(replace(RUN, table=table), "chrome"))["traceEvents"]
    steps = [event for event in events if event["ph"] == "X"]
    assert len(steps) == 10
    assert steps[0]["name"] == "steps 1 to 7"
    (cpu,) = [event for event in events if event["name"] == "cpu allocated"]
    assert cpu["ts"] == pytest.approx(steps[-1]["ts"] + steps[-1]["dur"])


def test_steps_csv_is_the_table() -> None:
    rows = list(csv.DictReader(io.StringIO(encode(RUN, "steps-csv").decode())))
    names = {"device"}
    read = [
        StepRow(
            **{
                name: value
                if name in names
                else None
                if value == ""
                else (float if "." in value else int)(value)
                for name, value in row.items()
            }
        )
        for row in rows
    ]
    assert tuple(read) == TABLE.rows


def test_sites_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(encode(RUN, "sites-csv").decode())))
    assert [int(row["bytes"]) for row in rows] == [group.bytes for group in SNAPSHOT.groups]
    assert (rows[0]["file"], rows[0]["line"], rows[0]["expression"]) == (TRAIN, "41", "F.relu(self.fc1(x))")
    assert [row["pending"] for row in rows[:3]] == ["0", "0", "1"]


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_names_get_through(name: str) -> None:
    data = encode(HOSTILE, name)
    if name == "sites-csv":
        first, second = csv.DictReader(io.StringIO(data.decode(), newline=""))
        assert first["file"] == "/home/\\udcff/net.py"
        assert (first["function"], first["expression"]) == (HOSTILE_SHOWN, '=cmd|"/c"!A1\n')
        assert (second["file"], second["bytes"]) == ("", "1024")
    elif name == "pprof":
        first, second = profile(data)["samples"]
        assert first[0] == (("/home/\\udcff/net.py", 1, HOSTILE_SHOWN),)
        assert second[0] == (("unknown", 0, "unknown"),)
    elif name == "memory-viz":
        assert pickle.loads(data)["segments"][0]["blocks"][0]["frames"][0]["name"] == HOSTILE_SHOWN


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_report_lacks_is_said(name: str) -> None:
    with pytest.raises(ReportError, match="Make a capture with: python -m leakguard run -o"):
        encode(Recording(report=REPORTS["leak"]), name)


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_run_is_no_failure(name: str) -> None:
    empty = replace(RUN, snapshot=Snapshot(step=0), table=StepTable(steps=TABLE.steps))
    data = encode(empty, name)
    if name == "memory-viz":
        assert pickle.loads(data) == {"segments": [], "device_traces": []}
    if name == "pprof":
        assert profile(data)["samples"] == []


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(modern()))
    assert main(["export", str(file), "--to", "pprof"]) == 0
    out = tmp_path / "snapshot.pb.gz"
    assert capsys.readouterr().out == f"saved {out}: go tool pprof -http=: {out}\n"
    read = profile(out.read_bytes())
    assert sum(size for _, (_, size), _ in read["samples"]) == 5 * MIB + MIB // 2
    assert main(["export", str(file), "--to", "memory-viz"]) == 2
    assert "would be written over itself" in capsys.readouterr().err
    assert main(["export", str(file), "--to", "chrome"]) == 2
    assert capsys.readouterr().err.startswith(f"leakguard: {file}: it does not tell what single steps did")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["snapshot.pb.gz", "snapshot.pickle"]
