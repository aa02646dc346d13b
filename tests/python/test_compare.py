"""`leakguard diff` and `explain`, over saved reports, in a process that has no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sample_reports import HISTORY, LEAK, MIB, REPORTS, TOTAL
from sample_tables import AFTER, BEFORE, OTHER_RUN, WHOLE

from leakguard.cli import main
from leakguard.recording import Recording
from leakguard.recording_diff import compare_recordings
from leakguard.records import from_plain
from leakguard.report import Finding
from leakguard.report_diff import ReportDiff, compare

PACKAGE = Path(__file__).parents[2] / "python"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", "80")
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    BEFORE.save(files[0])
    AFTER.save(files[1])
    return [str(file) for file in files]


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_and_itself_do_not_differ(name: str) -> None:
    diff = compare(REPORTS[name], REPORTS[name])
    assert (diff.facts, diff.findings) == ((), ())
    assert diff.same == len(REPORTS[name].findings)


def test_findings_are_matched_by_fingerprint() -> None:
    diff = compare(LEAK, replace(LEAK, findings=(replace(HISTORY, bytes=1, bytes_per_step=2.0 * MIB), TOTAL)))
    assert [(one.before is None, one.bytes_per_step) for one in diff.findings] == [
        (False, MIB / 2),
        (True, 5243.0),
    ]
    moved = replace(
        HISTORY, allocated_at=replace(HISTORY.allocated_at, line=99), bytes=7, bytes_per_step=1.52 * MIB
    )
    assert compare(LEAK, replace(LEAK, findings=(moved,))).findings == ()


def test_a_comparison_on_the_command_line(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *files]) == 0
    whole = compare_recordings(Recording(report=BEFORE), Recording(report=AFTER))
    assert whole.findings == compare(BEFORE, AFTER).findings
    assert capsys.readouterr().out == f"{whole}\n"
    assert main(["diff", *files, "--json"]) == 0
    assert ReportDiff.from_dict(json.loads(capsys.readouterr().out)) == whole


@pytest.mark.parametrize("recording", [WHOLE, OTHER_RUN, Recording(report=LEAK)])
def test_a_recording_and_itself_do_not_differ(recording: Recording) -> None:
    diff = compare_recordings(recording, recording)
    assert diff == ReportDiff(same=len(recording.report.findings))


def test_call_sites_are_matched_wherever_the_file_lies() -> None:
    diff = compare_recordings(WHOLE, OTHER_RUN)
    (forward,) = [one for one in diff.sites if one.place.function == "Net.forward"]
    assert (forward.before, forward.after) == (57 * MIB, 60 * MIB)
    assert forward.rate == 30 * MIB / 36
    assert ("cuda:0 peak", "100 MiB", "200 MiB") in [(one.name, one.before, one.after) for one in diff.facts]
    assert diff.sites[0] is forward


def test_of_a_killed_run_what_grows_is_compared() -> None:
    diff = compare_recordings(WHOLE, replace(OTHER_RUN, snapshot=None))
    assert [(one.place.function, one.before, one.after) for one in diff.sites] == [
        ("Net.forward", 57 * MIB, 57 * MIB),
        ("load", 0, None),
    ]
    assert diff.categories == ()
    assert compare_recordings(WHOLE, Recording(report=LEAK)).sites == ()


def test_one_finding_is_explained(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "41d0", files[0]]) == 0
    shown = capsys.readouterr().out
    assert "fingerprint 41d0b7e5" in shown
    assert "add loss.item()" in shown
    assert HISTORY.fingerprint not in shown
    assert main(["explain", "41d0b7e5", files[0], "--json"]) == 0
    assert from_plain(Finding, json.loads(capsys.readouterr().out)) == TOTAL


@pytest.mark.parametrize(
    ("fingerprint", "problem"),
    [("zzz", "zzz is no fingerprint"), ("", " is no fingerprint"), ("0", "0 begins several fingerprints")],
)
def test_what_is_no_finding(
    fingerprint: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    findings = (HISTORY, replace(TOTAL, fingerprint="0aa"), replace(TOTAL, fingerprint="0bb"))
    replace(LEAK, findings=findings).save(file)
    assert main(["explain", fingerprint, str(file)]) == 2
    assert problem in capsys.readouterr().err


def test_reading_needs_no_torch(files: list[str]) -> None:
    code = f"""
import sys
sys.modules["torch"] = None  # an import of it raises
from leakguard.cli import main
for words in (["show", {files[0]!r}], ["diff", *{files!r}], ["explain", "9f31", {files[0]!r}], ["stats", {files[0]!r}]):
    assert main(words) == 0
assert not [name for name in sys.modules if name.startswith(("leakguard._core", "leakguard._native"))]
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
