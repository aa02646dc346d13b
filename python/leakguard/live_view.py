"""A watched run as it is now, read from its file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakguard.capture_file import is_running, opened, run_in
from leakguard.recording import Recording, load_recording
from leakguard.run_stats import SiteStats, site_stats, stats_of
from leakguard.step_table import StepTable

__all__ = ["LiveView", "look"]


@dataclass(frozen=True, slots=True)
class LiveView:
    """What a run has told of itself. `seconds` is how long it has run, `silent` how long ago it told a verdict."""

    recording: Recording
    pid: int | None
    running: bool
    seconds: float | None
    silent: float | None

    @property
    def table(self) -> StepTable:
        """Its steps."""
        return self.recording.table or StepTable(steps=self.recording.report.steps)

    def growing(self) -> tuple[SiteStats, ...]:
        """Its call sites, those that grow most first."""
        return tuple(sorted(site_stats(self.recording), key=lambda site: -(site.bytes_per_step or 0.0)))

    def to_dict(self) -> dict[str, Any]:
        """The view in plain dictionaries, lists, strings and numbers."""
        return {
            "pid": self.pid,
            "running": self.running,
            "seconds": self.seconds,
            "silent": self.silent,
            "stats": stats_of(self.recording).to_dict(),
            "report": self.recording.report.to_dict(),
            "table": self.table.to_dict(),
        }


def look(path: str | Path) -> LiveView:
    """What the capture says at this moment. Raises ReportError when it cannot be read, or is gone."""
    with opened(path, patience=0.5) as connection:
        run = run_in(connection)
    recording = load_recording(path)
    running = is_running(run)
    now = time.time()
    began, updated = run.get("began"), run.get("ended") or run.get("updated")
    until = now if running else updated
    return LiveView(
        recording=recording,
        pid=run.get("pid"),
        running=running,
        seconds=until - began if began is not None and until is not None else None,
        silent=now - updated if updated is not None else None,
    )
