"""Lines of source in a page, and a page without any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from html import escape
from pathlib import PurePath
from typing import Any

from leakguard.recording import Recording, SourceLines, named_places
from leakguard.render.wording import short_path, visible
from leakguard.report import Finding, Link, Place

__all__ = ["source_excerpts", "without_source"]

HIDDEN = "…"


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
    """The same recording without a line of source: no expression, no folder of a file, no command; for sharing."""
    expressions = sorted(
        {one.expression for one in _places_of(recording) if one.expression}, key=len, reverse=True
    )

    def cleaned(text: str) -> str:
        for expression in expressions:
            text = text.replace(expression, HIDDEN)
        return text

    return replace(
        recording,
        report=_mapped(recording.report, cleaned),
        snapshot=_mapped(recording.snapshot, cleaned),
        growth=_mapped(recording.growth, cleaned),
        sources=(),
        command=None,
    )


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
    """The value with every text cleaned; places lose their expressions, and files their folders."""
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, tuple):
        return tuple(_mapped(one, cleaned) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in fields(value)}
        if isinstance(value, Place):
            given |= {"expression": None, "via": value.via and PurePath(value.via).name}
        if isinstance(value, (Place, Link)):
            given["file"] = value.file and PurePath(value.file).name
        return replace(value, **{name: _mapped(one, cleaned) for name, one in given.items()})
    return value
