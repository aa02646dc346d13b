"""Evidence of growth under any mixture of loops: what it may say, and what it must."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

scripted = pytest.importorskip("_scripted", reason="the test-only module _scripted is not built")

FORWARD = 1
LEAK, RING, ONCE, PASSING = 1, 2, 3, 4


class Loop:
    """A training loop with several lines that allocate, each in its own manner."""

    def __init__(self, seed: int) -> None:
        self.run = scripted.Run()
        self.random = random.Random(seed)
        self.next = 0x1000
        self.alive: dict[int, list[tuple[int, int, int]]] = defaultdict(list)  # line: (address, bytes, step)

    def allocate(self, line: int, size: int = 1024) -> None:
        self.next += 64
        self.run.born("cpu", self.next, size, line, FORWARD)
        self.alive[line].append((self.next, size, self.run.steps))

    def free(self, line: int, index: int = 0) -> None:
        address, _, _ = self.alive[line].pop(index)
        assert self.run.retired("cpu", address)

    def evidence(self) -> dict[int, tuple[int, int, int, int, int, float, float, int]]:
        groups = self.run.groups()
        return {groups[group][1]: found for group, found in self.run.evidence().items()}

    def end_step(self) -> None:
        self.run.mark()
        self.run.observe()


def check_sound(loop: Loop) -> None:
    """Evidence says nothing that its own ledger does not bear out."""
    newest = loop.run.steps - 1
    for line, (
        first,
        last,
        birth_steps,
        blocks,
        size,
        blocks_per_step,
        bytes_per_step,
        seen,
    ) in loop.evidence().items():
        assert loop.run.base + scripted.WARMUP <= first <= last <= seen - scripted.TAIL
        assert seen <= newest
        assert scripted.FIRM <= birth_steps <= last - first + 1
        assert blocks >= birth_steps
        assert size >= 0
        assert blocks_per_step > 0
        length = seen - scripted.TAIL - first + 1
        if seen == newest:
            survivors = loop.alive[line]
            assert (blocks, size) == (len(survivors), sum(b for _, b, _ in survivors))
            counted = [entry for entry in survivors if first <= entry[2] <= last]
            assert blocks_per_step * length == pytest.approx(len(counted), rel=0.02, abs=1)
            assert bytes_per_step * length == pytest.approx(sum(b for _, b, _ in counted), rel=0.02, abs=4096)


MANNERS = st.fixed_dictionaries(
    {
        "ring": st.integers(1, 80),
        "leak_every": st.sampled_from([0, 1, 1, 2, 3, 7]),
        "passing": st.integers(0, 20),
        "sizes": st.integers(1, 4096),
        "steps": st.integers(5, 250),
        "seed": st.integers(0, 2**16),
    }
)


@given(manners=MANNERS)
@settings(max_examples=150, deadline=None)
def test_evidence_is_sound_and_finds_the_leak(manners: dict[str, int]) -> None:
    loop = Loop(manners["seed"])
    for _ in range(10):
        loop.allocate(ONCE)
    for step in range(manners["steps"]):
        for _ in range(manners["passing"]):
            loop.allocate(PASSING, loop.random.randint(1, manners["sizes"]))
        loop.allocate(RING)
        if len(loop.alive[RING]) > manners["ring"]:
            loop.free(RING)
        if manners["leak_every"] and step % manners["leak_every"] == 0:
            loop.allocate(LEAK, manners["sizes"])
        while loop.alive[PASSING]:
            loop.free(PASSING, loop.random.randrange(len(loop.alive[PASSING])))
        loop.end_step()
        check_sound(loop)
    found = loop.evidence()
    assert ONCE not in found
    assert PASSING not in found
    if manners["ring"] <= scripted.FIRM or manners["steps"] > 2 * manners["ring"] + 20:
        assert RING not in found
    leaks = manners["leak_every"]
    if leaks and manners["steps"] >= scripted.WARMUP + scripted.TAIL + (scripted.FIRM + 1) * leaks:
        assert LEAK in found
    if not leaks:
        assert LEAK not in found


@given(
    seed=st.integers(0, 2**16),
    capacity=st.integers(1, 300),
    per_step=st.integers(1, 4),
    wavers=st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_a_full_buffer_never_grows_whichever_victim_it_takes(
    seed: int, capacity: int, per_step: int, wavers: int
) -> None:
    loop = Loop(seed)
    for _ in range(capacity):
        loop.allocate(RING)
    for _ in range(300):
        for _ in range(per_step):
            loop.free(RING, loop.random.randrange(len(loop.alive[RING])))
            loop.allocate(RING)
        for _ in range(loop.random.randint(0, wavers)):
            loop.allocate(PASSING)
        while len(loop.alive[PASSING]) > 3:
            loop.free(PASSING)
        loop.end_step()
        assert loop.evidence() == {}


@given(births=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5000)), max_size=300), data=st.data())
@settings(max_examples=100, deadline=None)
def test_birth_windows_against_a_list(births: list[tuple[int, int]], data: st.DataObject) -> None:
    windows = scripted.BirthWindows()
    alive: list[tuple[int, int]] = []
    step = 0
    rng = random.Random(data.draw(st.integers(0, 2**16)))
    for gap, size in births:
        step += gap
        counted = windows.add(step, size)
        assert counted == step
        alive.append((counted, size))
        while alive and rng.random() < 0.4:
            windows.remove(*alive.pop(rng.randrange(len(alive))))
        rows = windows.rows()
        assert sum(blocks for *_, blocks, _ in rows) == len(alive)
        assert sum(size for *_, size in rows) == sum(size for _, size in alive)
        for first, last, birth_steps, blocks, _ in rows:
            assert blocks == sum(first <= at <= last for at, _ in alive)
            assert birth_steps <= max(blocks, 1)
    assert len(rows if births else []) <= scripted.MOST_WINDOWS


@given(events=st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=400))
@settings(max_examples=100, deadline=None)
def test_block_table_against_a_dictionary(events: list[tuple[bool, int]]) -> None:
    table = scripted.BlockTable()
    model: dict[int, int] = {}
    for number, (birth, slot) in enumerate(events):
        address = slot * 64
        if birth:
            assert table.insert(address, number) == (address not in model)
            model[address] = number
        else:
            assert table.erase(address) == model.pop(address, None)
    assert table.contents() == model
