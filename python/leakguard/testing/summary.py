"""What a session says at its end: known leaks, checks that came to nothing, garbage, leftovers; and
annotations."""

from __future__ import annotations

from collections.abc import Iterator

from leakguard.render.text import working_folder
from leakguard.render.wording import Names, short_path, words
from leakguard.report import Finding
from leakguard.testing.failure_text import headline
from leakguard.testing.left_behind import Leftover
from leakguard.testing.results import Results, TestResult
from leakguard.units import format_bytes
from leakguard.wording import plural

__all__ = ["github_annotations", "summary_lines"]

SHOWN = 10
"""Rows of each kind without -v."""


def summary_lines(results: Results, verbosity: int = 0) -> list[str]:
    """The section; empty when there is nothing to say."""
    return [
        *_tests("known leaks, in the baseline", results.with_status("known"), _finding_of, verbosity),
        *_tests("not decided", results.with_status("undecided"), lambda result: result.note, verbosity),
        *_tests(
            "garbage that held tensors until it was collected", _littering(results), _garbage_of, verbosity
        ),
        *_left_behind(results.left_behind, verbosity),
    ]


def github_annotations(results: Results) -> Iterator[str]:
    """Workflow commands that put each new leak beside its line on GitHub."""
    for result in results.with_status("leak"):
        for finding in result.findings:
            place = finding.allocated_at
            if place.file is not None:
                file = short_path(place.file, working_folder())
                title = f"leakguard: {words(finding.title)}"
                yield (
                    f"::error file={_property(file)},line={place.line or 1},title={_property(title)}"
                    f"::{_data(f'{finding.why} (seen in {result.nodeid})')}"
                )


def _tests(title: str, results: list[TestResult], say: object, verbosity: int) -> Iterator[str]:
    if not results:
        return
    assert callable(say)
    yield f"{title}: {plural(len(results), 'test')}"
    yield from _cut([f"  {result.nodeid}  {say(result)}" for result in results], verbosity)


def _finding_of(result: TestResult) -> str:
    first: Finding = result.findings[0]
    return f"{headline(first)}  [{first.fingerprint}]"


def _littering(results: Results) -> list[TestResult]:
    found = [result for result in results.tests.values() if result.collected_bytes > 0]
    return sorted(found, key=lambda result: -result.collected_bytes)


def _garbage_of(result: TestResult) -> str:
    return format_bytes(result.collected_bytes)


def _left_behind(leftovers: list[Leftover], verbosity: int) -> Iterator[str]:
    if not leftovers:
        return
    total = format_bytes(sum(one.bytes for one in leftovers))
    yield f"left behind, alive after the last test: {total}"
    yield from _cut([f"  {_leftover(one)}" for one in leftovers], verbosity)


def _leftover(one: Leftover) -> str:
    owner = one.owner
    who = owner.test if owner.fixture is None else f"{owner.scope} fixture {owner.fixture}"
    place = Names(
        Finding(fingerprint="", verdict="growing", title="", device=one.device, bytes=0, blocks=0), None
    )
    where = place.place(
        short_path(one.place.file, working_folder()) if one.place.file else None, one.place.line
    )
    more = f" and {plural(one.sites - 1, 'more line')}" if one.sites > 1 else ""
    held = f", held by {words(one.holder)}" if one.holder else ""
    amount = f"{format_bytes(one.bytes)} on {one.device} in {plural(one.blocks, 'block')}"
    return f"{who}  {amount}, born at {where}{more}{held}"


def _cut(rows: list[str], verbosity: int) -> Iterator[str]:
    shown = rows if verbosity > 0 else rows[:SHOWN]
    yield from shown
    if len(rows) > len(shown):
        yield f"  and {len(rows) - len(shown)} more with -v"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
