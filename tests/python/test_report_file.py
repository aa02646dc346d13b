"""Report files, against everything that may happen to a file."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sample_reports import REPORTS

from leakguard.report import Report, ReportError, load
from leakguard.report_file import check_writable

DAMAGE = [
    (lambda plain: plain.pop("why"), "why: is missing"),
    (lambda plain: plain.update(status="fine"), "status: expected one of leak, warning, clean, inconclusive"),
    (lambda plain: plain.update(findings={}), r"findings: expected a list, found \{\}"),
    (lambda plain: plain.update(steps=[]), r"steps: expected an object, found \[\]"),
    (
        lambda plain: plain["findings"][0].update(bytes="1"),
        r"findings\[0\].bytes: expected a whole number, found '1'",
    ),
    (lambda plain: plain["findings"][0].update(bytes=1.5), r"findings\[0\].bytes: expected a whole number"),
    (
        lambda plain: plain["findings"][0].update(blocks=True),
        r"findings\[0\].blocks: expected a whole number",
    ),
    (
        lambda plain: plain["findings"][0].update(why=None),
        r"findings\[0\].why: expected a string, found None",
    ),
    (
        lambda plain: plain["overhead"].update(seconds=float("nan")),
        "overhead.seconds: expected a number, found nan",
    ),
    (
        lambda plain: plain["findings"][0]["example"].update(shape=[1, "b"]),
        r"example.shape\[1\]: expected a whole",
    ),
    (lambda plain: plain.update(schema=None), "has no schema number"),
    (lambda plain: plain.update(schema=True), "has no schema number"),
    (lambda plain: plain.update(schema=2, leakguard="3.4"), r"schema 2 .* reads up to schema 1: .*\(3.4\)"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE, ids=[message[:20] for _, message in DAMAGE])
def test_a_damaged_report_is_refused_by_the_name_of_its_file(
    damage: Any, message: str, tmp_path: Path
) -> None:
    plain = REPORTS["leak"].to_dict()
    damage(plain)
    file = tmp_path / "report.json"
    file.write_text(json.dumps(plain))
    with pytest.raises(ReportError, match=message) as caught:
        load(file)
    assert str(caught.value).startswith(str(file))


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_report_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_bytes(content)
    with pytest.raises(ReportError, match=r"is not a leakguard report.*leakguard run --json"):
        load(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"cannot be read: no such file.*leakguard run --json"):
        load(tmp_path / "none.json")


def test_saving_replaces_a_file_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    REPORTS["leak"].save(file)
    file.chmod(0o604)
    before = file.stat().st_ino
    REPORTS["clean"].save(file)
    assert load(file) == REPORTS["clean"]
    assert file.stat().st_ino != before
    assert stat.S_IMODE(file.stat().st_mode) == 0o604
    assert list(tmp_path.iterdir()) == [file]


def test_a_save_that_fails_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report.json"
    REPORTS["leak"].save(file)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReportError, match="no space left on device"):
        REPORTS["clean"].save(file)
    assert load(file) == REPORTS["leak"]
    assert list(tmp_path.iterdir()) == [file]


def test_saving_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    link, file = tmp_path / "latest.json", tmp_path / "report.json"
    link.symlink_to(file)
    REPORTS["leak"].save(link)
    assert link.is_symlink()
    assert load(file) == REPORTS["leak"]


def test_saving_to_a_pipe_writes_into_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        REPORTS["leak"].save(pipe)
        text, _ = reader.communicate(timeout=60)
    assert Report.from_dict(json.loads(text)) == REPORTS["leak"]


def test_a_report_cannot_be_saved_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "none" / "report.json"
    for attempt in (REPORTS["leak"].save, check_writable):
        with pytest.raises(ReportError, match=f"mkdir -p {file.parent}"):
            attempt(file)


def test_checking_a_file_leaves_no_trace(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("old")
    check_writable(old)
    check_writable(new)
    assert old.read_text() == "old"
    assert not new.exists()
    with pytest.raises(ReportError, match="it is a folder"):
        check_writable(tmp_path)


def test_reading_needs_neither_torch_nor_the_native_module(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    REPORTS["leak"].save(file)
    code = (
        "import sys; from leakguard.report import load; text = str(load(sys.argv[1]));"
        "assert not {'torch', 'leakguard._core', 'leakguard.guard'} & set(sys.modules); print(text[:4])"
    )
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert done.stdout == "LEAK\n"
