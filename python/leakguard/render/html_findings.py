"""The verdict and the findings of a page."""

from __future__ import annotations

from html import escape

from leakguard.recording import Recording
from leakguard.render.html_paper import HtmlPaper
from leakguard.render.html_source import source_excerpts
from leakguard.render.text import (
    count_steps,
    counted_findings,
    settled_findings,
    verdict_of,
    write_finding,
    write_settled,
)
from leakguard.render.wording import words
from leakguard.report import Finding, Report
from leakguard.units import format_bytes
from leakguard.wording import plural

__all__ = ["findings_block", "verdict_block"]


def verdict_block(recording: Recording) -> str:
    """The status, its sentence, why and next; then the few figures that one asks for first."""
    report = recording.report
    head, why, following = verdict_of(report, counted_findings(report))
    reasons = "".join(
        f"<dt>{label}</dt><dd>{escape(text)}</dd>"
        for label, text in (("why", why), ("next", following))
        if text
    )
    figures = "".join(
        f"<li><strong>{escape(figure)}</strong> <span>{escape(name)}</span></li>"
        for figure, name in _figures(report)
    )
    return (
        f'<p><span class="badge" data-status="{report.status}">{report.status.upper()}</span></p>'
        f'<h1>{escape(head)}</h1><dl class="reasons">{reasons}</dl><ul class="tiles">{figures}</ul>'
    )


def findings_block(recording: Recording, folder: str | None) -> str:
    """A card for each finding that counts, then a row for each other one."""
    counted = counted_findings(recording.report)
    cards = [_card(finding, number, recording, folder) for number, finding in enumerate(counted, 1)]
    paper = HtmlPaper()
    write_settled(paper, settled_findings(recording.report))
    return "\n".join([*cards, paper.html()]).strip()


def _card(finding: Finding, number: int, recording: Recording, folder: str | None) -> str:
    paper = HtmlPaper()
    write_finding(paper, finding, recording.report, folder)
    facts = "".join(f"<li>{escape(fact)}</li>" for fact in _facts(finding))
    return (
        f'<article class="card finding" id="finding-{number}" data-verdict="{finding.verdict}">'
        f"<header><h3>{escape(words(finding.title))}</h3>"
        f'<ul class="facts"><li class="kind">{escape(finding.verdict.replace("-", " "))}</li>{facts}</ul></header>'
        f"{paper.html()}{source_excerpts(finding, recording.sources, folder)}</article>"
    )


def _facts(finding: Finding) -> list[str]:
    facts = [f"{format_bytes(finding.bytes)} in {plural(finding.blocks, 'block')}"]
    if finding.bytes_per_step > 0:
        facts.insert(0, f"+{format_bytes(finding.bytes_per_step)} a step")
    if finding.first_step is not None and finding.last_step is not None:
        facts.append(f"steps {finding.first_step} to {finding.last_step}")
    facts.append(words(finding.device))
    return facts


def _figures(report: Report) -> list[tuple[str, str]]:
    figures = []
    counted = counted_findings(report)
    rate = sum(finding.bytes_per_step for finding in counted)
    if rate > 0:
        figures.append((f"+{format_bytes(rate)}", "more in every step"))
    freed = sum(finding.retained_bytes or finding.bytes for finding in counted)
    if freed > 0:
        figures.append((format_bytes(freed), "kept so far"))
    peaks = [device for device in report.devices if device.peak_bytes]
    if peaks:
        highest = max(peaks, key=lambda device: device.peak_bytes or 0)
        figures.append((format_bytes(highest.peak_bytes or 0), f"peak on {words(highest.device)}"))
    figures.append(
        (str(report.steps.count), count_steps(report.steps).removeprefix(f"{report.steps.count} "))
    )
    return figures
