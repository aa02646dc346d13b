"""The working parts of one watch, put together: native ledger, steps, modules. Needs torch; `guard` does
not."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from leakguard import live_files
from leakguard._native import core
from leakguard.attachment import Attachment
from leakguard.categories import Categories
from leakguard.diagnosis import Observation, diagnose
from leakguard.found_survivors import found_filled_in
from leakguard.graph_tails import GraphTails
from leakguard.holders import HolderSearch
from leakguard.live_memory import take_snapshot
from leakguard.memory_advice import backward_advice
from leakguard.memory_snapshot import Snapshot
from leakguard.phase_times import PhaseTimes
from leakguard.recorder import LiveTeller, Recorder, Teller, command_line
from leakguard.recording import MOST_SITES, Recording
from leakguard.report import Advice, DeviceUsage, Lost, Overhead, Report, Steps
from leakguard.sources import sources_of
from leakguard.step_rows import step_diff, step_growth, step_table
from leakguard.step_sample import StepSample
from leakguard.step_sampler import StepSampler
from leakguard.step_table import StepDiff, StepTable
from leakguard.steps import StepFinder
from leakguard.suspects import growing_sites
from leakguard.training_advice import training_advice
from leakguard.units import format_bytes
from leakguard.watched_modules import WatchedModules

__all__ = ["Engine"]

Spent = Callable[[], tuple[Sequence[str], float]]
"""Gives the failures inside leakguard so far, and the seconds that its hooks have cost."""

WARMUP = 4
"""Steps that tell nothing: the first two create what stays, what the last two made may still be in use."""


class Engine:
    """Attached from construction to `stop()`. Without `seek_modules` the heap is never searched for modules
    that nobody has named, and no forward call is taken for a step."""

    def __init__(
        self,
        modules: Iterable[torch.nn.Module],
        user_code: Iterable[str],
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
        seek_modules: bool = True,
        operators: bool = False,
    ) -> None:
        roots = _checked(modules)
        core.remember_main_file()
        self._began = time.perf_counter()
        self._allocator_seconds = core.allocator_seconds()
        self._modules = WatchedModules(roots)
        self._watch = core.Watch()
        self._holders = HolderSearch(core.BirthMark())
        self._tails = GraphTails(self._own_bytes)
        self._guarded = guarded
        self._seek_modules = seek_modules or bool(roots)
        self.followers: list[Callable[[], None]] = []  # called after each step
        self._resting = False
        self._seeking = False
        self._tellers: list[Teller] = []
        self._phases = PhaseTimes(lambda: (step for _, step, _, _ in self._watch.rows()))
        self._steps = StepFinder(self._mark, self.restart, guarded, self._phases)
        self._attachment = Attachment(user_code, operators=operators)
        self._cuda_step_ended = self._attachment.cuda.step_ended if torch.version.cuda else None
        self._follow_forward = guarded(self._meet_roots)
        self._sampler = StepSampler(self._modules, self._attachment.cuda.residents, guarded)
        try:
            self._steps.install()
            if roots:
                self._steps.follow_forward(roots)
            elif seek_modules:
                self._seeking = True
                core.seek_root_modules(self._follow_forward)
        except BaseException:
            self.stop()
            raise

    def add_modules(self, modules: Iterable[torch.nn.Module]) -> None:
        """More root modules."""
        roots = _checked(modules)
        self._modules.add(roots, by_user=True)
        self._steps.follow_forward(roots)

    def explicit_step(self) -> None:
        """The user says that a step is over."""
        self._steps.explicit_step()

    @property
    def step_count(self) -> int:
        """Steps seen so far, from a source as good as the present one."""
        return self._watch.steps - self._watch.base

    @property
    def first_step(self) -> int:
        """The ledger's number of the step that is 1 to the user."""
        return self._watch.base

    def peaks(self) -> dict[str, int]:
        """The most bytes that were live at once on each device since the engine was made."""
        peaks = {device: core.live_range(device)[1] for device in core.devices()}
        for _, _, _, devices in self._watch.rows():
            for device, _, _, peak, _ in devices:
                peaks[device] = max(peak, peaks.get(device, 0))
        return peaks

    def restart(self) -> None:
        """Sets aside what was seen so far, as if watching began now."""
        self._watch.rebase()
        self._holders = HolderSearch(core.BirthMark())
        self._tails.restart()
        self._sampler.restart()

    def rest(self) -> None:
        """Marks no step until `renew()`."""
        self._resting = True

    def renew(self) -> None:
        """As if just made; for a fraction of what that costs. Of the modules, nothing is known any more."""
        self._began = time.perf_counter()
        self._allocator_seconds = core.allocator_seconds()
        self._modules.clear()
        self._watch = core.Watch()
        self._attachment.cuda.reserved.clear()
        self._holders = HolderSearch(core.BirthMark())
        self._tails.restart()
        self._steps.reset()
        self._resting = False

    def stop(self) -> None:
        """Puts everything back, the rest also when one part fails."""
        with contextlib.ExitStack() as back:
            back.callback(self._modules.clear)
            back.callback(self._attachment.release)
            back.callback(self._steps.remove)
            back.callback(self._sampler.cancel)
            back.callback(self.end_telling, None)
            core.seek_root_modules(None)

    def report(self, failures: Sequence[str], seconds: float) -> Report:
        """The verdict on what has been seen so far. `seconds` is what the hooks have cost."""
        growing = [evidence[0] for evidence in self._watch.evidence()]
        if growing:
            self._guarded(self._holders.look)(growing, self.step_count)
        self._guarded(self._tails.look)(quiet=not growing)
        return self._diagnosed(failures, seconds)

    def begin_telling(
        self, capture: Path | None, live: bool, tell: Callable[[str], None], spent: Spent
    ) -> None:
        """Writes the run into a capture file from now on, and tells of it in the runtime folder if `live`. `tell` gets
        a sentence when the capture cannot be written. Raises ReportError when it cannot be created."""
        picture, reserved = functools.partial(self._picture, spent), self._attachment.cuda.reserved
        if live and live_files.is_wanted():
            self._tellers.append(LiveTeller(self._watch, reserved, self._phases, picture))
        if capture is not None:
            self._tellers.append(Recorder(capture, self._watch, reserved, self._phases, picture, tell))

    def end_telling(self, report: Report | None) -> None:
        """Ends what `record` and `tell_live` have begun, with the last report or without."""
        tellers, self._tellers = self._tellers, []
        for teller in tellers:
            if report is None:
                teller.close()
            else:
                teller.finish(functools.partial(self.recording, report))

    def recording(self, report: Report) -> Recording:
        """All that is known of the run, with this report."""
        return Recording(
            report=report,
            table=found_filled_in(self.table(), report.findings, self._watch.base),
            snapshot=self.snapshot(),
            sources=sources_of(report.findings),
            command=command_line(),
            growth=step_growth(self._watch, WARMUP, MOST_SITES),
        )

    def _picture(self, spent: Spent) -> Recording:
        """What is known during the run, without looking at single blocks."""
        return Recording(
            report=self._diagnosed(*spent()), growth=step_growth(self._watch, WARMUP, MOST_SITES)
        )

    def _diagnosed(self, failures: Sequence[str], seconds: float) -> Report:
        return diagnose(self._observation(len(failures), seconds))

    def table(self) -> StepTable:
        """The steps so far, one by one."""
        table = step_table(self._watch, self._step_counts(), self._phases)
        return self._attachment.cuda.reserved.filled_in(table, self._watch.base)

    def snapshot(self, *, holders: bool = False) -> Snapshot:
        """What is alive now; with `holders`, also who holds it and in what shape."""
        cuda = self._attachment.cuda
        categories = Categories(self._modules, cuda.residents())
        return take_snapshot(
            self.step_count, self._devices(), self.peaks(), cuda, categories, holders=holders
        )

    def sample_step(self) -> None:
        """The next step that begins is seen from inside."""
        self._sampler.ask()

    def sample(self) -> StepSample | None:
        """What was seen in the last step that was sampled."""
        return self._sampler.sample

    def diff(self, from_step: int, to_step: int) -> StepDiff:
        """What changed between the ends of two steps. Raises ValueError for a step that has not been seen."""
        return step_diff(self._watch, from_step, to_step)

    def progress(self) -> str:
        """A few words on the run so far."""
        allocated = ", ".join(f"{device} {format_bytes(core.counts(device)[1])}" for device in core.devices())
        growing = len(self._watch.growing())
        suspects = f", {growing} call sites under suspicion" if growing else ""
        return f"step {self.step_count}, {allocated}{suspects}"

    def _mark(self) -> None:
        if self._resting:
            return
        elapsed = time.perf_counter() - self._began
        asked = self._watch.mark(elapsed)
        self._phases.step_ended(self._watch.steps - 1)
        if self._cuda_step_ended is not None:
            self._cuda_step_ended(self._watch.steps - 1)
        if asked & core.UNKNOWN_MODULES and self._seek_modules:
            self._modules.refresh_unknown()
        if asked & core.GROWING:
            fresh = bool(asked & core.FRESH)
            self._holders.consider(self._watch.growing(), fresh, self.step_count, elapsed)
        self._tails.step_ended(quiet=not asked & core.GROWING)
        if self._sampler.busy:
            self._sampler.step_ended(self.step_count)
        if self._seeking and self._steps.source != "forward":
            self._seeking = False
            core.seek_root_modules(None)
        for teller in self._tellers:
            teller.step_ended(elapsed, bool(asked & core.FRESH))
        for follower in self.followers:
            follower()

    def _meet_roots(self) -> None:
        """In the main thread, soon after the first allocations inside modules that nobody has named."""
        seen = set(core.seen_root_modules())
        self._modules.search()
        self._steps.follow_forward(root for root in self._modules.roots() if id(root) in seen)

    def _observation(self, failures: int, seconds: float) -> Observation:
        elapsed = time.perf_counter() - self._began
        spent = seconds + core.allocator_seconds() - self._allocator_seconds
        dropped, unknown, replaced, _ = core.lost()
        trouble = self._attachment.trouble
        growing, rounding = growing_sites(
            self._watch, self._holders, self._attachment.cuda, self._steps.backward_calls.mostly_retained
        )
        growing = growing or self._tails.growing()
        calls = self._steps.backward_calls
        habits: list[Advice] = []
        self._guarded(lambda: habits.extend(self._habits(grows=bool(growing))))()
        return Observation(
            steps=self._step_counts(),
            devices=tuple(self._usage(device, rounding.get(device, 0.0)) for device in self._devices()),
            growing=growing,
            overhead=Overhead(
                seconds=spent,
                fraction=spent / elapsed if elapsed > 0 else 0.0,
                host_bytes=self._own_bytes(),
            ),
            lost=Lost(
                events=dropped + replaced,
                unknown_births=unknown,
                uncovered_devices=len(trouble),
                failures=failures,
            ),
            advice=(
                *self._attachment.cuda.advice(self.step_count),
                *backward_advice(calls),
                *habits,
                *(advice for teller in self._tellers for advice in teller.advice()),
            ),
            trouble=tuple(f"{device} (not all is seen: {why})" for device, why in trouble.items()),
        )

    def _habits(self, *, grows: bool) -> Iterable[Advice]:
        """What the loop's own code could do otherwise."""
        return training_advice(
            self._watch,
            self.table(),
            self._steps.backward_line,
            self._steps.backward_calls,
            residents=self._attachment.cuda.residents().keys(),
            grows=grows,
        )

    def _own_bytes(self) -> int:
        """Host memory of leakguard's tables."""
        return core.host_bytes() + self._watch.host_bytes()

    def _step_counts(self) -> Steps:
        return Steps(count=self.step_count, warmup=WARMUP, source=self._steps.source)

    def _devices(self) -> list[str]:
        return list(dict.fromkeys([*self._attachment.cuda.devices(), *core.devices()]))

    def _usage(self, device: str, rounding: float) -> DeviceUsage:
        rows = [
            (step, allocated, peak)
            for _, step, _, devices in self._watch.rows()
            for name, allocated, _, peak, _ in devices
            if name == device
        ]
        live_bytes = core.counts(device)[1]
        peak = max([live_bytes, *(peak for _, _, peak in rows)])
        steady = [row for row in rows if row[0] >= self._watch.base + WARMUP]
        rate = None
        if len(steady) > 1:
            rate = rounding + (steady[-1][1] - steady[0][1]) / (steady[-1][0] - steady[0][0])
        if device.startswith("cuda"):
            return self._attachment.cuda.usage(device, rate, peak)
        return DeviceUsage(device=device, allocated_bytes=live_bytes, peak_bytes=peak, bytes_per_step=rate)


def _checked(modules: Iterable[torch.nn.Module]) -> list[torch.nn.Module]:
    roots = list(modules)
    for module in roots:
        if not isinstance(module, torch.nn.Module):
            raise TypeError(
                f"watch() takes torch.nn.Module objects, and got {type(module).__name__}; "
                "everything is watched without naming it: leakguard.watch()"
            )
    return roots
