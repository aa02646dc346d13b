"""The report value against its contract."""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path
from types import NoneType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_reports import REPORTS

from leakguard.report import (
    Advice,
    DeviceUsage,
    Example,
    Finding,
    Link,
    Lost,
    Overhead,
    Place,
    Report,
    Steps,
    Verdict,
    load,
    status_of,
    unwatched,
)

NUMBER = (int, float)
TEXT_OR_NULL, COUNT_OR_NULL, NUMBER_OR_NULL = (str, NoneType), (int, NoneType), (*NUMBER, NoneType)

# Schema 1, field by field: the JSON types that each may have. A name in quotes refers to another table.
CONTRACT: dict[str, dict[str, Any]] = {
    "Report": {
        "schema": int,
        "leakguard": str,
        "torch": str,
        "python": str,
        "status": {"leak", "warning", "clean", "inconclusive"},
        "why": str,
        "next": str,
        "steps": "Steps",
        "devices": ["DeviceUsage"],
        "findings": ["Finding"],
        "advice": ["Advice"],
        "overhead": "Overhead",
        "lost": "Lost",
    },
    "Steps": {"count": int, "warmup": int, "source": {"explicit", "optimizer", "backward", "forward", None}},
    "DeviceUsage": {
        "device": str,
        "allocated_bytes": COUNT_OR_NULL,
        "reserved_bytes": COUNT_OR_NULL,
        "peak_bytes": COUNT_OR_NULL,
        "bytes_per_step": NUMBER_OR_NULL,
        "fragmentation": NUMBER_OR_NULL,
        "outside_allocator_bytes": COUNT_OR_NULL,
    },
    "Finding": {
        "fingerprint": str,
        "verdict": {"growing", "waiting-for-gc", "bounded", "by-design", "no-owner"},
        "cause": str,
        "title": str,
        "why": str,
        "fix": TEXT_OR_NULL,
        "device": str,
        "bytes": int,
        "blocks": int,
        "bytes_per_step": NUMBER,
        "blocks_per_step": NUMBER,
        "first_step": COUNT_OR_NULL,
        "last_step": COUNT_OR_NULL,
        "category": str,
        "allocated_at": "Place",
        "root": str,
        "retained_by": ["Link"],
        "retained_bytes": int,
        "example": ("Example", None),
        "also_born_at": ["Place"],
    },
    "Place": {
        "file": TEXT_OR_NULL,
        "line": COUNT_OR_NULL,
        "function": TEXT_OR_NULL,
        "expression": TEXT_OR_NULL,
        "op": TEXT_OR_NULL,
        "module": TEXT_OR_NULL,
        "phase": str,
        "via": TEXT_OR_NULL,
    },
    "Link": {
        "edge": str,
        "name": TEXT_OR_NULL,
        "type": TEXT_OR_NULL,
        "file": TEXT_OR_NULL,
        "line": COUNT_OR_NULL,
    },
    "Example": {"shape": [int], "dtype": str, "requires_grad": bool},
    "Advice": {"topic": str, "text": str, "saves_bytes": COUNT_OR_NULL},
    "Overhead": {"seconds": NUMBER, "fraction": NUMBER, "host_bytes": int},
    "Lost": {"events": int, "unknown_births": int, "uncovered_devices": int, "failures": int},
}

RECORDS = {
    record.__name__: record
    for record in (Report, Steps, DeviceUsage, Finding, Place, Link, Example, Advice, Overhead, Lost)
}


def assert_contract(value: Any, rule: Any, place: str = "report") -> None:
    """Compares a JSON value with its rule in CONTRACT."""
    if isinstance(rule, str):
        assert list(value) == list(CONTRACT[rule]), place
        for name, inner in CONTRACT[rule].items():
            assert_contract(value[name], inner, f"{place}.{name}")
    elif isinstance(rule, list):
        assert type(value) is list, place
        for item in value:
            assert_contract(item, rule[0], f"{place}[]")
    elif isinstance(rule, set):
        assert value in rule, place
    elif isinstance(rule, tuple) and isinstance(rule[0], str):
        assert value is None or assert_contract(value, rule[0], place) is None
    else:
        assert type(value) in (rule if isinstance(rule, tuple) else (rule,)), place


def record_of(kind: type) -> st.SearchStrategy[Any]:
    """Any value of a record that the contract allows."""
    hints = typing.get_type_hints(kind)
    fields = {field.name: values_of(hints[field.name]) for field in dataclasses.fields(kind)}
    if kind is Report:
        fields["schema"] = st.just(1)
    return st.builds(kind, **fields)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return record_of(typing.cast(type, hint))
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if NoneType in arguments:
        return st.none() | values_of(next(one for one in arguments if one is not NoneType))
    if hint is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    return {str: st.text(st.characters()), int: st.integers(-(2**63), 2**63), bool: st.booleans()}[hint]


@settings(deadline=None)
@given(record_of(Report))
def test_a_report_comes_back_whole(report: Report) -> None:
    plain = json.loads(json.dumps(report.to_dict()))
    assert_contract(plain, "Report")
    assert Report.from_dict(plain) == report


@pytest.mark.parametrize("name", CONTRACT)
def test_every_record_has_the_fields_of_the_contract(name: str) -> None:
    assert [field.name for field in dataclasses.fields(RECORDS[name])] == list(CONTRACT[name])


@pytest.mark.parametrize("name", REPORTS)
def test_a_saved_report_comes_back(name: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    REPORTS[name].save(file)
    assert load(file) == REPORTS[name]
    assert_contract(json.loads(file.read_text("ascii")), "Report")


def test_records_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        REPORTS["leak"].findings[0].bytes = 0  # type: ignore[misc]


def test_unknown_keys_are_passed_over_and_optional_ones_may_be_missing() -> None:
    plain = {
        "schema": 1,
        "status": "clean",
        "why": "w",
        "next": "n",
        "steps": {"count": 9, "new": 1},
        "new": {},
    }
    plain["findings"] = [
        {
            "fingerprint": "f",
            "verdict": "growing",
            "title": "t",
            "device": "cpu",
            "bytes": 1.0,
            "blocks": 1,
            "new": [],
        }
    ]
    report = Report.from_dict(plain)
    assert report.steps == Steps(count=9)
    assert report.findings[0] == Finding(
        fingerprint="f", verdict="growing", title="t", device="cpu", bytes=1, blocks=1
    )


LONG_ENOUGH = Steps(count=40, warmup=2, source="optimizer")


def finding(
    verdict: Verdict, bytes_per_step: float = 0.0, blocks_per_step: float = 0.0, name: str = "f"
) -> Finding:
    return Finding(
        fingerprint=name,
        verdict=verdict,
        title="",
        device="cpu",
        bytes=0,
        blocks=0,
        bytes_per_step=bytes_per_step,
        blocks_per_step=blocks_per_step,
    )


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ([], "clean"),
        ([finding("by-design", 512, 1)], "clean"),
        ([finding("bounded")], "clean"),
        ([finding("bounded", 512, 1)], "warning"),
        ([finding("bounded", 0, 1)], "warning"),
        ([finding("waiting-for-gc")], "warning"),
        ([finding("growing", 512, 1)], "leak"),
        ([finding("no-owner", 512, 1)], "leak"),
        ([finding("growing", 4, 1)], "leak"),
        ([finding("growing", 0, 0.02)], "leak"),
        ([finding("growing", 0.5, 0.005)], "clean"),
        ([finding("growing", 0.5, 0.005), finding("waiting-for-gc")], "warning"),
        ([finding("waiting-for-gc"), finding("growing", 512, 1)], "leak"),
    ],
)
def test_the_status_follows_from_the_findings(findings: list[Finding], status: str) -> None:
    assert status_of(findings, LONG_ENOUGH) == status


def test_too_few_steps_are_inconclusive_whatever_was_found() -> None:
    leak = [finding("growing", 512, 1)]
    assert status_of(leak, Steps(count=9, warmup=2)) == "inconclusive"
    assert status_of(leak, Steps(count=10, warmup=2)) == "leak"
    assert status_of([], Steps()) == "inconclusive"


def test_a_suspect_that_lost_events_have_touched_is_no_evidence() -> None:
    doubted, sure = finding("growing", 512, 1, name="doubted"), finding("growing", 512, 1, name="sure")
    assert status_of([doubted], LONG_ENOUGH, doubtful={"doubted"}) == "inconclusive"
    assert status_of([doubted, sure], LONG_ENOUGH, doubtful={"doubted"}) == "leak"
    assert status_of([finding("waiting-for-gc")], LONG_ENOUGH, doubtful={"another"}) == "inconclusive"


def test_a_run_of_which_nothing_was_seen_has_a_valid_report() -> None:
    report = unwatched("torch was never imported", "import it", failures=1)
    assert_contract(report.to_dict(), "Report")
    assert status_of(report.findings, report.steps) == report.status == "inconclusive"
    assert report.lost == Lost(failures=1)
