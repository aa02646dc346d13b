"""A million steps: what is known of a leak, and what that takes, stay as they were after the first thousand."""

from __future__ import annotations

import pytest

scripted = pytest.importorskip("_scripted", reason="the test-only module _scripted is not built")

FORWARD = 1
LEAK, RING, PASSING = 1, 2, 3
EVERY = 100  # steps between two leaked blocks
KEPT = 16  # blocks of the ring


def play(run: object, first: int, last: int, ring: list[int], address: int) -> int:
    """Steps first..last of a loop with a slow leak, a ring buffer, and tensors that die in their step."""
    born, retired = run.born, run.retired  # type: ignore[attr-defined]
    for step in range(first, last):
        address += 64
        born("cpu", address, 4096, PASSING, FORWARD)
        retired("cpu", address)
        address += 64
        born("cpu", address, 1024, RING, FORWARD)
        ring.append(address)
        if len(ring) > KEPT:
            retired("cpu", ring.pop(0))
        if step % EVERY == 0:
            address += 64
            born("cpu", address, 512, LEAK, FORWARD)
        run.mark()  # type: ignore[attr-defined]
        run.observe()  # type: ignore[attr-defined]
    return address


@pytest.mark.parametrize("steps", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_slow_leak_keeps_its_first_step_and_its_rate(steps: int) -> None:
    run = scripted.Run()
    ring: list[int] = []
    address = play(run, 0, 2_000, ring, 0x1000)
    lines = {group: key[1] for group, key in enumerate(run.groups())}
    known = run.host_bytes()
    early = {lines[group]: found for group, found in run.evidence().items()}
    play(run, 2_000, steps, ring, address)
    assert run.host_bytes() - known <= 200 * steps // EVERY + 64 * 1024  # the live blocks, and no past
    late = {lines[group]: found for group, found in run.evidence().items()}
    assert early.keys() == late.keys() == {LEAK}
    assert early[LEAK][0] == late[LEAK][0] == EVERY  # the block of step 0 is warm-up
    assert late[LEAK][2] == steps // EVERY - 1
    assert late[LEAK][3] == steps // EVERY
    assert late[LEAK][6] == pytest.approx(512 / EVERY, rel=0.01)
    assert early[LEAK][6] == pytest.approx(512 / EVERY, rel=0.1)
