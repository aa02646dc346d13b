"""Puts a guard without torch in the place of `leakguard.guard`, in every python that finds this folder on its
path.

It reports a run of 40 steps with the status in FAKE_STATUS and notes in FAKE_LOG what is asked of it.
FAKE_FAULT makes it fail: `watch`, `report`, or `memory` for a report that finds memory only once frames have
been released.
"""

from __future__ import annotations

import os
import sys
import time
import types


class FakeGuard:
    def __init__(self):
        self.asked = 0

    def report(self):
        from leakguard.report import Finding, Report, Steps, status_of

        self.asked += 1
        note("report")
        fault = os.environ.get("FAKE_FAULT")
        if fault == "report" or (fault == "memory" and self.asked == 1):
            raise RuntimeError("no heap") if fault == "report" else MemoryError
        if fault == "slow":
            linger()
        steps = Steps(count=40, warmup=2, source="optimizer")
        common = {"fingerprint": "9f31c0a2", "device": "cpu", "bytes": 2048, "blocks": 4}
        findings = {
            "leak": [Finding(verdict="growing", title="cpu grows", bytes_per_step=512.0, **common)],
            "warning": [Finding(verdict="waiting-for-gc", title="cpu waits", **common)],
            "clean": [],
        }[os.environ.get("FAKE_STATUS", "leak")]
        status = status_of(findings, steps)
        return Report(status=status, why="the reason", next="the fix", steps=steps, findings=tuple(findings))

    def recording(self):
        from leakguard.recording import Recording

        note("recording")
        return Recording(report=self.report(), command="what the guard thinks", began=1.0)

    def progress(self):
        return "step 7"

    def stop(self):
        note("stop")


def watch(*modules, **options):
    if os.environ.get("FAKE_FAULT") == "watch":
        raise ImportError("built for torch 2.12, found torch 2.13")
    note(f"watch {modules} {sorted(options.items())}")
    return FakeGuard()


def linger():
    """Takes a minute, and tells all the time that it still does."""
    for _ in range(3000):
        print("reporting", flush=True)
        time.sleep(0.02)


def note(line):
    log = os.environ.get("FAKE_LOG")
    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.write(line + "\n")


module = types.ModuleType("leakguard.guard")
module.watch = watch
module.step = lambda: None
sys.modules["leakguard.guard"] = module
