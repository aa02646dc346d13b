"""A recording in the formats of other tools. None of them needs torch to be written."""

from __future__ import annotations

from dataclasses import dataclass

from leakguard.recording import Recording

__all__ = ["FORMATS", "Format", "encode"]


@dataclass(frozen=True, slots=True)
class Format:
    """How files of it are named, and how one is looked at."""

    suffix: str
    use: str


FORMATS = {
    "memory-viz": Format(".pickle", "python -m torch.cuda._memory_viz trace_plot {file} -o timeline.html"),
    "pprof": Format(".pb.gz", "go tool pprof -http=: {file}"),
    "chrome": Format(".trace.json", "open it in Perfetto or in chrome://tracing"),
    "steps-csv": Format(".steps.csv", "one row a step and device"),
    "sites-csv": Format(".sites.csv", "one row a call site"),
}


def encode(recording: Recording, format: str) -> bytes:
    """The recording as a file of one of FORMATS. Raises ReportError when it lacks what the format shows."""
    if format == "memory-viz":
        from leakguard.exports.memory_viz import memory_viz

        return memory_viz(recording)
    if format == "pprof":
        from leakguard.exports.pprof import pprof

        return pprof(recording)
    if format == "chrome":
        from leakguard.exports.chrome_trace import chrome_trace

        return chrome_trace(recording)
    from leakguard.exports.tables import sites_csv, steps_csv

    return {"steps-csv": steps_csv, "sites-csv": sites_csv}[format](recording)
