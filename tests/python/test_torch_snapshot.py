"""Memory snapshots of torch: every schema is read, sums add up, and nothing in a pickle is executed."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sample_reports import REPORTS
from torch_snapshots import BACKWARD, FORWARD, MIB, TRAINER, block, growing, modern, segment

from leakguard.cli import main
from leakguard.memory_snapshot import SnapshotDiff
from leakguard.records import from_plain
from leakguard.report import Place, ReportError
from leakguard.torch_frames import place_of_frames
from leakguard.torch_snapshot import TorchSnapshot, load_torch_snapshot


@pytest.fixture
def load(tmp_path: Path):
    def load(data: Any) -> TorchSnapshot:
        file = tmp_path / "snapshot.pickle"
        file.write_bytes(pickle.dumps(data))
        return load_torch_snapshot(file)

    return load


NET = Place(file="/home/me/net.py", line=41, function="forward", phase="forward")


def test_what_is_alive(load) -> None:
    memory = load(modern()).memory
    facts = ("bytes", "blocks", "pending", "private_pool")
    assert [
        (one.place.file, one.place.phase, one.place.op, *(getattr(one, fact) for fact in facts))
        for one in memory.groups
    ] == [
        ("/home/me/net.py", "forward", None, 2 * MIB, 2, False, False),
        (None, "other", None, 2 * MIB, 1, False, True),
        (None, "backward", "MulBackward0", MIB, 1, False, False),
        ("/home/me/train.py", "other", None, MIB // 2, 1, True, False),
    ]
    assert memory.groups[0].keys == ((0x1000000, 2_000_000, MIB), (0x1100000, 0, MIB))
    assert memory.groups[0].requested_bytes == 2 * MIB - 100


def test_sums_add_up_by_pool(load) -> None:
    (memory,) = load(modern()).memory.devices
    assert {name: memory.current(name) for name in ("allocated", "active", "requested", "reserved")} == {
        "allocated": 5 * MIB,
        "active": 5 * MIB + MIB // 2,
        "requested": 5 * MIB + MIB // 2 - 100,
        "reserved": 10 * MIB + MIB // 2,
    }
    assert memory.current("inactive split") == 5 * MIB
    for name in ("allocated", "active", "requested", "reserved", "inactive split"):
        assert memory.current(name) == sum(memory.current(name, pool) for pool in ("large", "small"))


def test_how_reserved_memory_is_cut_up(load) -> None:
    snapshot = load(modern())
    (reserved,) = snapshot.reserved
    assert (reserved.segments, reserved.expandable_segments) == (3, 1)
    assert (reserved.free_bytes, reserved.largest_free) == (5 * MIB, (3 * MIB, MIB, MIB))
    assert reserved.fragmentation == pytest.approx(0.4)
    (pool,) = snapshot.pools
    assert (pool.pool, pool.reserved_bytes, pool.allocated_bytes) == ("0.3", 3 * MIB, 2 * MIB)
    assert snapshot.settings == (
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "expandable_segments=True",
    )


def test_a_history_that_begins_late_says_so(load) -> None:
    (history,) = load(modern()).histories
    assert (history.events, history.births, history.frees, history.out_of_memory) == (5, 2, 2, 1)
    assert history.seconds == 3.0
    assert history.frees_unexplained == 1
    assert (history.unborn_blocks, history.placeless_blocks) == (4, 2)
    assert "recording was switched on later, or more than max_entries events came" in str(
        load(modern())
    ).replace("\n", " ")


def test_without_history(load) -> None:
    data = modern()
    del data["device_traces"]
    snapshot = load(data)
    assert snapshot.histories[0].events == 0
    assert "_record_memory_history() was not on" in str(snapshot).replace("\n", " ")
    assert snapshot.growing == ()


def without(data: dict[str, Any], *names: str) -> dict[str, Any]:
    """The same in the schema of a torch that did not write these fields yet."""
    for one in data["segments"]:
        for name in names:
            one.pop(name, None)
            for each in one["blocks"]:
                each.pop(name, None)
    return data


def test_older_schemas(load) -> None:
    new = load(modern()).memory
    old = without(modern(), "segment_pool_id", "is_expandable", "requested_size", "address")
    for number, one in enumerate(old["segments"]):
        one["address"] = modern()["segments"][number]["address"]
        for each in one["blocks"]:
            if each["state"] == "active_pending_free":
                each["state"] = "active_awaiting_free"
            frames = each.pop("frames")
            if each["state"] != "inactive":
                each["history"] = [{"addr": 0, "real_size": each["size"], "frames": frames}]
    del old["allocator_settings"], old["external_annotations"]
    for events in old["device_traces"]:
        for one in events:
            del one["time_us"]
    read = load(old).memory
    assert [(group.place, group.bytes, group.pending) for group in read.groups] == [
        (group.place, group.bytes, group.pending) for group in new.groups
    ]
    assert [[address for address, *_ in group.keys] for group in read.groups] == [
        [address for address, *_ in group.keys] for group in new.groups
    ]
    assert load(old["segments"]).memory.devices == read.devices


def test_pinned_host_memory_and_several_devices(load) -> None:
    data = {
        "segments": [segment(4096, [block(512)], "small", device=1)],
        "device_traces": [[], []],
        "host_segments": [segment(8192, [block(1024)])],
    }
    snapshot = load(data)
    assert [(one.device, one.current("allocated")) for one in snapshot.memory.devices] == [
        ("cuda:1", 512),
        ("pinned", 1024),
    ]


def test_what_grows_is_pointed_out(load) -> None:
    snapshot = load(growing(40))
    (one,) = snapshot.growing
    assert (one.blocks, one.bytes, one.tenths) == (40, 40 * 512, 10)
    assert snapshot.memory.groups[one.group].place == NET


@pytest.mark.parametrize(("steps", "ring"), [(7, None), (40, 8)])
def test_what_does_not_grow_is_not(load, steps: int, ring: int | None) -> None:
    assert load(growing(steps, ring)).growing == ()


def test_places() -> None:
    assert place_of_frames(FORWARD) == NET
    trainer = place_of_frames(TRAINER)
    assert (trainer.file, trainer.line) == ("/home/me/train.py", 7)
    assert trainer.via == "/venv/lib/python3.11/site-packages/trainer/loop.py:3 in fit"
    assert place_of_frames(TRAINER[:2]).file == "/venv/lib/python3.11/site-packages/trainer/loop.py"
    assert place_of_frames(TRAINER[:1]).file == "/venv/lib/python3.11/site-packages/torch/nn/functional.py"
    assert place_of_frames(BACKWARD) == Place(op="MulBackward0", phase="backward")
    assert place_of_frames([]) == Place()


def test_the_forward_line_behind_a_block_of_the_backward_pass() -> None:
    written = [
        '  File "/home/me/train.py", line 7, in main\n    loss = net(x)\n',
        '  File "/home/me/net.py", line 41, in forward\n    return x * self.scale\n',
        '  File "/venv/lib/python3.11/site-packages/torch/nn/functional.py", line 9, in relu\n',
    ]
    assert place_of_frames(BACKWARD, written) == Place(
        file="/home/me/net.py",
        line=41,
        function="forward",
        expression="return x * self.scale",
        op="MulBackward0",
        phase="backward",
    )
    assert place_of_frames(BACKWARD, ["nonsense", {"filename": "x"}]).file is None


class Command:
    """What a hostile pickle does when it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.file}",)


def test_nothing_is_executed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, proof = tmp_path / "snapshot.pickle", tmp_path / "proof"
    file.write_bytes(pickle.dumps({"segments": [Command(proof)]}))
    assert main(["show", str(file)]) == 2
    assert not proof.exists()
    told = capsys.readouterr().err
    assert told.startswith(f"leakguard: {file} is refused: it holds posix.system, and a memory snapshot")
    assert len(told.splitlines()) == 1


ENDLESS = {"filename": "net.py", "line": float("inf"), "name": "forward"}
DAMAGED = {
    "cut off": pickle.dumps(modern())[:400],
    "no snapshot": pickle.dumps({"state_dict": {}}),
    "no dictionary": pickle.dumps(3),
    "a segment that is none": pickle.dumps({"segments": [3]}),
    "a block without size": pickle.dumps(
        {"segments": [segment(0, []) | {"blocks": [{"state": "inactive"}]}]}
    ),
    "a size below zero": pickle.dumps({"segments": [segment(0, [block(-1)])]}),
    "a line without end": pickle.dumps({"segments": [segment(0, [block(1, frames=[ENDLESS])])]}),
    "an event that is none": pickle.dumps({"segments": [], "device_traces": [[{}]]}),
    "nothing but a beginning": b"\x80",
    "noise": b"\x80\x04" + bytes(range(1, 200)),
    "a call of a string": b"\x80\x02X\x02\x00\x00\x00hi)R.",
    "memory without end": b"\x80\x04N\x72\xff\xff\xff\x7f.",
    "a name from outside": b"\x80\x02Pname\n.",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(DAMAGED[name])
    with pytest.raises(ReportError, match=str(file)):
        load_torch_snapshot(file)


def test_two_of_them_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.pickle", tmp_path / "after.pickle"
    before.write_bytes(pickle.dumps(growing(40, ring=8)))
    after.write_bytes(pickle.dumps(growing(42, ring=8)))
    assert main(["diff", str(before), str(after), "--json"]) == 0
    diff = from_plain(SnapshotDiff, json.loads(capsys.readouterr().out))
    (group,) = diff.groups
    assert (group.place, group.born_blocks, group.died_blocks, group.survived_bytes) == (NET, 2, 2, 6 * 512)
    assert main(["diff", str(before), str(before)]) == 0
    assert "nothing was born and nothing died" in capsys.readouterr().out
    report = tmp_path / "report.json"
    REPORTS["leak"].save(report)
    assert main(["diff", str(report), str(after)]) == 2
    assert "cannot be compared: one is a memory snapshot of torch's" in capsys.readouterr().err


def test_a_birth_that_the_later_history_has_lost(load) -> None:
    data = growing(12)
    for number, one in enumerate(data["device_traces"][0]):
        one["time_us"] = 1000 + number
    before = load(data)
    del data["device_traces"][0][:20]
    diff = before.diff(load(data))
    assert (diff.groups, diff.survived_blocks) == ((), 12)


def test_show_and_json_need_no_torch(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(modern()))
    command = [sys.executable, "-c", SHOW, "show", file, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert TorchSnapshot.from_dict(json.loads(done.stdout)) == load_torch_snapshot(file)


SHOW = """
import sys
from leakguard.cli import main
from leakguard.memory_snapshot import SnapshotDiff
from leakguard.records import from_plain
code = main(sys.argv[1:])
assert "torch" not in sys.modules
sys.exit(code)
"""
