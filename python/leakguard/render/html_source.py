"""Lines of source in a page, and a page without any."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from html import escape
from pathlib import PurePath
from typing import Any

from leakguard.recording import Recording, SourceLines, named_places
from leakguard.render.wording import short_path, visible
from leakguard.report import Finding, Link, Place
from leakguard.report_diff import ReportDiff

__all__ = ["diff_without_source", "source_excerpts", "without_source"]

HIDDEN = "…"
SENTENCES = ("title", "why", "next", "fix", "text", "root", "type")
"""Fields that may quote the program."""

_NAME = re.compile(r"[\w.]+")
_FOLDERS = re.compile(r"(?<![\w/.])(?:[A-Za-z]:|~)?[/\\](?:[^\s/\\:'\"]+[/\\])+")


def source_excerpts(finding: Finding, sources: tuple[SourceLines, ...], folder: str | None) -> str:
    """The pieces of source that a finding names, its lines marked; where it is born first. Empty without sources."""
    named: dict[str, set[int]] = {}
    for file, line in named_places(finding):
        named.setdefault(file, set()).add(line)
    birth = finding.allocated_at
    wanted = [piece for piece in sources if _lines(piece) & named.get(piece.file, set())]
    wanted.sort(key=lambda piece: not (piece.file == birth.file and (birth.line or 0) in _lines(piece)))
    return "".join(_excerpt(piece, named[piece.file], folder) for piece in wanted)


def without_source(recording: Recording) -> Recording:
    """The same recording without a line of source, an expression, a folder of a file, the command: for sharing. Names
    of functions, modules and variables stay."""
    cleaned = _cleaner(recording)
    return replace(
        recording,
        report=_mapped(recording.report, cleaned),
        snapshot=_mapped(recording.snapshot, cleaned),
        growth=_mapped(recording.growth, cleaned),
        sources=(),
        command=None,
    )


def diff_without_source(diff: ReportDiff, before: Recording, after: Recording) -> ReportDiff:
    """Likewise what differs between two recordings, which are matched by their expressions before they lose them."""
    cleaned: ReportDiff = _mapped(_mapped(diff, _cleaner(before)), _cleaner(after))
    return replace(cleaned, facts=tuple(fact for fact in cleaned.facts if fact.name != "command"))


def _cleaner(recording: Recording) -> Callable[[str], str]:
    expressions = {one.expression for one in _places_of(recording) if one.expression}
    code = sorted((text for text in expressions if not _NAME.fullmatch(text)), key=len, reverse=True)

    def cleaned(text: str) -> str:
        for expression in code:
            text = text.replace(expression, HIDDEN)
        return _FOLDERS.sub("", text)

    return cleaned


def _excerpt(piece: SourceLines, named: set[int], folder: str | None) -> str:
    width = len(str(piece.first + len(piece.lines)))
    lines = "".join(
        f'<span class="{"line named" if number in named else "line"}">'
        f'<span class="number">{number:>{width}}</span>{escape(visible(text.expandtabs(4)))}\n</span>'
        for number, text in enumerate(piece.lines, piece.first)
    )
    title = escape(short_path(piece.file, folder))
    return f'<figure class="source"><figcaption>{title}</figcaption><pre tabindex="0">{lines}</pre></figure>'


def _lines(piece: SourceLines) -> set[int]:
    return set(range(piece.first, piece.first + len(piece.lines)))


def _places_of(recording: Recording) -> list[Place]:
    groups = recording.snapshot.groups if recording.snapshot is not None else ()
    findings = recording.report.findings
    born = [place for one in findings for place in (one.allocated_at, *one.also_born_at)]
    grown = recording.growth.sites if recording.growth is not None else ()
    return [*born, *(group.place for group in groups), *(site.place for site in grown)]


def _mapped(value: Any, cleaned: Callable[[str], str]) -> Any:
    """The value with its sentences cleaned; places lose their expressions, and files their folders."""
    if isinstance(value, tuple):
        return tuple(_mapped(one, cleaned) for one in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    given = {field.name: _mapped(getattr(value, field.name), cleaned) for field in fields(value)}
    given |= {name: cleaned(given[name]) for name in SENTENCES if isinstance(given.get(name), str)}
    if isinstance(value, Place):
        given |= {"expression": None, "via": value.via and PurePath(value.via).name}
    if isinstance(value, (Place, Link)):
        given["file"] = value.file and PurePath(value.file).name
    return replace(value, **given)
