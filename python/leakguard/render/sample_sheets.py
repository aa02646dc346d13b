"""A sampled step, laid out."""

from __future__ import annotations

from leakguard.render.sheet import Sheet, category_words
from leakguard.render.wording import words
from leakguard.step_sample import Moment, StepSample
from leakguard.units import format_bytes, format_share
from leakguard.wording import plural

__all__ = ["sample_sheets"]

SHOWN = 12


def sample_sheets(sample: StepSample) -> tuple[Sheet, ...]:
    """For each device the categories at each moment, then the modules at the peak."""
    sheets = []
    note = f"step {sample.step}"
    if sample.missed_events:
        note += f", {plural(sample.missed_events, 'event')} missed: the peak may be another"
    devices = dict.fromkeys(one.device for moment in sample.moments for one in moment.memory)
    for device in devices:
        sheets.append(_by_category(device, sample.moments, note))
        peak = sample.moment("peak")
        if peak is not None:
            sheets.append(_by_module(device, peak))
    return tuple(sheets) or (Sheet(note, note="nothing was alive"),)


def _by_category(device: str, moments: tuple[Moment, ...], note: str) -> Sheet:
    categories = dict.fromkeys(
        one.category for moment in reversed(moments) for one in moment.memory if one.device == device
    )
    rows = [
        (category_words(category), *(format_bytes(moment.bytes_of(device, category)) for moment in moments))
        for category in categories
    ]
    rows.append(("together", *(format_bytes(moment.bytes_of(device)) for moment in moments)))
    return Sheet(
        words(device),
        ("category", *(moment.name for moment in moments)),
        tuple(rows),
        note=note,
        spare=("step begin", "mid-backward", "after forward"),
    )


def _by_module(device: str, peak: Moment) -> Sheet:
    sums: dict[str, list[int]] = {}
    for one in peak.memory:
        if one.device == device:
            name = words(one.module or "none") + f"   {category_words(one.category)}"
            size, blocks = sums.get(name, (0, 0))
            sums[name] = [size + one.bytes, blocks + one.blocks]
    whole = peak.bytes_of(device)
    ordered = sorted(sums.items(), key=lambda item: -item[1][0])
    rows = [
        (format_bytes(size), format_share(size / whole if whole else 0.0), str(blocks), name)
        for name, (size, blocks) in ordered[:SHOWN]
    ]
    if ordered[SHOWN:]:
        size, blocks = (sum(item[1][part] for item in ordered[SHOWN:]) for part in (0, 1))
        rest = plural(len(ordered[SHOWN:]), "smaller one")
        rows.append((format_bytes(size), format_share(size / whole if whole else 0.0), str(blocks), rest))
    title = f"{words(device)}, alive at the peak"
    return Sheet(
        title, ("bytes", "share", "blocks", "module"), tuple(rows), words_last=True, note=format_bytes(whole)
    )
