"""The ledger, its birth windows and its step history against plain dictionaries, under any order of events.

Hypothesis plays the events: births, also at addresses whose block never died; frees asked for, also twice
and of blocks nobody knows; retirements; step marks; a second watch. After each event the ledger must say
exactly what the dictionaries say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

scripted = pytest.importorskip("_scripted", reason="the test-only module _scripted is not built")

# Few addresses, so that they are used again. Host devices share one space: pinned memory has a part of it.
ADDRESSES = {
    "cpu": [0x1000 + 64 * i for i in range(12)],
    "pinned": [0x9000 + 64 * i for i in range(6)],
    "cuda:0": [0x1000 + 512 * i for i in range(12)],
    "cuda:7": [0x1000 + 512 * i for i in range(4)],
}
PLACES = st.sampled_from(
    [(device, address) for device, addresses in ADDRESSES.items() for address in addresses]
)


@dataclass
class ModelBlock:
    bytes: int
    step: int
    line: int
    phase: int
    pending: bool = False


class LedgerAgainstDictionary(RuleBasedStateMachine):
    """What an allocator would say, kept in dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.run = scripted.Run()
        self.model: dict[tuple[str, int], ModelBlock] = {}
        self.born: Counter[str] = Counter()
        self.born_bytes: Counter[str] = Counter()
        self.replaced = 0
        self.step = 0
        self.base = 0
        self.watch_consumed: Counter[str] = Counter()
        self.births_seen: dict[tuple[str, int], int] = {}
        self.marked: dict[int, dict[tuple[str, int, int], tuple[int, int]]] = {}
        self.extremes: dict[str, tuple[int, int]] = dict.fromkeys(ADDRESSES, (0, 0))

    # events

    @rule(place=PLACES, size=st.integers(0, 5000), line=st.integers(0, 5), phase=st.integers(0, 3))
    def born_here(self, place: tuple[str, int], size: int, line: int, phase: int) -> None:
        device, address = place
        self.run.born(device, address, size, line, phase)
        self.replaced += place in self.model
        self.model.pop(place, None)
        self.model[place] = ModelBlock(size, self.step, line, phase)
        self.born[device] += 1
        self.born_bytes[device] += size
        self.watch_consumed[device] += size

    @rule(place=PLACES)
    def free_asked(self, place: tuple[str, int]) -> None:
        self.run.free_requested(*place)
        if place in self.model:
            self.model[place].pending = True

    @rule(place=PLACES)
    def retires(self, place: tuple[str, int]) -> None:
        known = self.run.retired(*place)
        assert known == (place in self.model)
        self.model.pop(place, None)

    @rule(data=st.data())
    @precondition(lambda self: self.model)
    def a_live_one_retires(self, data: st.DataObject) -> None:
        self.retires(data.draw(st.sampled_from(sorted(self.model))))

    @rule()
    def step_ends(self) -> None:
        assert self.run.mark() == self.step
        self.marked[self.step] = self.live_by_group()
        self.step += 1
        self.run.observe()

    @rule(steps=st.integers(50, 200))
    def many_steps_end(self, steps: int) -> None:
        for _ in range(steps):
            self.step_ends()

    @rule()
    def a_better_source_of_steps(self) -> None:
        self.run.rebase()
        self.base = self.step

    @rule()
    def watched_again(self) -> None:
        self.run.watch_again()
        self.step = self.base = 0 if self.step == 0 else self.step + 1
        self.watch_consumed.clear()
        self.marked.clear()

    # what must hold after each

    def live(self, device: str) -> list[ModelBlock]:
        return [b for (d, _), b in self.model.items() if d == device and not b.pending]

    def live_by_group(self) -> dict[tuple[str, int, int], tuple[int, int]]:
        blocks: Counter[tuple[str, int, int]] = Counter()
        sizes: Counter[tuple[str, int, int]] = Counter()
        for (device, _), block in self.model.items():
            if not block.pending:
                blocks[device, block.line, block.phase] += 1
                sizes[device, block.line, block.phase] += block.bytes
        return {key: (blocks[key], sizes[key]) for key in blocks}

    @invariant()
    def sums_are_the_allocators(self) -> None:
        for device in ADDRESSES:
            live = self.live(device)
            pending = [b for (d, _), b in self.model.items() if d == device and b.pending]
            assert self.run.counts(device) == (
                len(live),
                sum(b.bytes for b in live),
                len(pending),
                sum(b.bytes for b in pending),
                self.born[device],
                self.born_bytes[device],
            )
        assert self.run.lost() == (0, 0, self.replaced)

    @invariant()
    def blocks_are_the_allocators(self) -> None:
        groups = self.run.groups()
        seen = self.run.blocks()
        assert seen.keys() == self.model.keys()
        for place, (size, step, group, pending, _) in seen.items():
            block = self.model[place]
            assert (size, pending) == (block.bytes, block.pending)
            assert groups[group] == (place[0], block.line, block.phase)
            assert step == block.step

    @invariant()
    def groups_count_what_is_live(self) -> None:
        assert self.counted(self.run.group_counts()) == self.live_by_group()

    def counted(self, counts: list[tuple[int, int]]) -> dict[tuple[str, int, int], tuple[int, int]]:
        return {key: count for key, count in zip(self.run.groups(), counts, strict=True) if any(count)}

    @invariant()
    def windows_hold_every_survivor_at_its_step(self) -> None:
        for group, key in enumerate(self.run.groups()):
            device, line, phase = key
            survivors = [b for b in self.live(device) if b.line == line and b.phase == phase]
            windows = self.run.windows(group)
            assert sum(blocks for *_, blocks, _ in windows) == len(survivors)
            assert sum(size for *_, size in windows) == sum(b.bytes for b in survivors)
            inside = [[b.step for b in survivors if w[0] <= b.step <= w[1]] for w in windows]
            assert [blocks for *_, blocks, _ in windows] == [len(steps) for steps in inside]
            # Steps of birth are exact in a window of one step, and an upper bound in a merged one.
            for (first, last, birth_steps, blocks, _), steps in zip(windows, inside, strict=True):
                assert len(set(steps)) <= birth_steps <= min(blocks, last - first + 1)
            assert all(a[1] < b[0] for a, b in pairwise(windows))
            assert len(windows) <= scripted.MOST_WINDOWS

    @invariant()
    def steps_are_counted(self) -> None:
        assert (self.run.steps, self.run.base) == (self.step, self.base)

    @invariant()
    def rows_leave_no_step_out(self) -> None:
        rows = self.run.rows()
        begin = self.step - len(self.marked)
        assert [first for first, _, _ in rows] == [begin, *(step + 1 for _, step, _ in rows)][: len(rows)]
        assert not rows or rows[-1][1] == self.step - 1

    def teardown(self) -> None:
        self.step_ends()
        consumed: Counter[str] = Counter()
        for _, _, devices in self.run.rows():
            for device, (_, trough, peak, size) in devices.items():
                consumed[device] += size
                assert 0 <= trough <= peak
        assert +consumed == +self.watch_consumed
        self.compare_marks()

    def compare_marks(self) -> None:
        kept = sorted({self.run.nearest(step) for step in self.marked})
        assert kept[-64:] == sorted(self.marked)[-64:]
        for a in (kept[0], kept[len(kept) // 2]):
            for b in (a, kept[-1]):
                changes = {self.run.groups()[group]: change for group, change in self.run.diff(a, b).items()}
                before, after = self.marked[a], self.marked[b]
                expected = {}
                for key in before.keys() | after.keys():
                    old, new = before.get(key, (0, 0)), after.get(key, (0, 0))
                    if old != new:
                        expected[key] = (new[0] - old[0], new[1] - old[1], *new)
                assert changes == expected


TestLedger = LedgerAgainstDictionary.TestCase
TestLedger.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.long
class TestLedgerAtLength(LedgerAgainstDictionary.TestCase):
    settings = settings(
        max_examples=1500, stateful_step_count=120, deadline=None, suppress_health_check=list(HealthCheck)
    )
