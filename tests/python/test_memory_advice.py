"""What is explained and what is advised against: where it fits, with its figures, and not where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

import leakguard  # noqa: E402
from leakguard.memory_advice import (  # noqa: E402
    BackwardCalls,
    CacheState,
    backward_advice,
    cache_advice,
    cache_growth_advice,
)
from leakguard.step_table import StepRow  # noqa: E402

MIB = 2**20
QUIET = CacheState(
    device="cuda:0",
    allocated=90 * MIB,
    reserved=100 * MIB,
    active=90 * MIB,
    free_pieces=2,
    largest_free=8 * MIB,
    outside=500 * MIB,
    emptied=1,
    device_allocations=3,
    steps=100,
)


def test_nothing_is_said_of_a_cache_that_is_in_use() -> None:
    assert cache_advice(QUIET) == ()


@pytest.mark.parametrize(
    ("change", "topic", "figures"),
    [
        (
            {"allocated": 20 * MIB, "active": 20 * MIB, "largest_free": 70 * MIB},
            "cache",
            ("100 MiB", "20.0 MiB", "80.0 MiB"),
        ),
        ({"allocated": 80 * MIB}, "pending free", ("10.0 MiB",)),
        ({"workspaces": 8 * MIB, "workspace_count": 1}, "workspaces", ("8.00 MiB", "1 workspace ")),
        ({"private": 30 * MIB}, "captured graphs", ("30.0 MiB",)),
        ({"outside": 3 * 2**30}, "outside the allocator", ("3.00 GiB",)),
        ({"emptied": 100, "device_allocations": 400}, "empty_cache", ("100 times in 100 steps", "400 times")),
    ],
)
def test_each_is_said_alone_with_its_figures(
    change: dict[str, int], topic: str, figures: tuple[str, ...]
) -> None:
    (said,) = cache_advice(replace(QUIET, **change))
    assert said.topic == topic
    for figure in figures:
        assert figure in said.text


def test_fragmentation_is_said_with_the_largest_piece_and_who_is_in_the_way() -> None:
    torn = replace(
        QUIET, allocated=20 * MIB, active=20 * MIB, free_pieces=40, largest_free=2 * MIB, pinning_blocks=41
    )
    cache, torn_apart = cache_advice(torn)
    assert (cache.topic, torn_apart.topic) == ("cache", "fragmentation")
    for figure in ("80.0 MiB", "40 pieces", "2.00 MiB", "41 live blocks"):
        assert figure in torn_apart.text


@pytest.mark.parametrize(("calls", "retained", "said"), [(20, 20, True), (40, 20, False), (5, 5, False)])
def test_retaining_in_every_pass_is_told_from_retaining_in_all_but_the_last(
    calls: int, retained: int, said: bool
) -> None:
    assert [advice.topic for advice in backward_advice(BackwardCalls(calls, retained))] == (
        ["retain_graph"] if said else []
    )


@pytest.mark.parametrize(("flags", "said"), [((True, True), True), ((True, False), False), ((False,), False)])
def test_passes_of_a_loop_are_counted(flags: tuple[bool, ...], said: bool) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with leakguard.watch(on_exit="never") as guard:
        for _ in range(14):
            loss = model(torch.ones(2, 4)).sum()
            for retain in flags:
                loss.backward(retain_graph=retain)
            optimizer.step()
        report = guard.report()
    assert ("retain_graph" in [advice.topic for advice in report.advice]) is said


def rows_of(reserved, peak, steps: int = 80) -> list[StepRow]:
    return [
        StepRow(
            first_step=step,
            last_step=step,
            device="cuda:0",
            trough=0,
            peak=peak(step) * MIB,
            allocated=0,
            consumed=0,
            survivors=0,
            reserved=None if reserved is None else reserved(step) * MIB,
        )
        for step in range(5, 5 + steps)
    ]


def test_a_cache_that_grows_while_what_is_used_does_not_is_said_with_its_figures() -> None:
    (said,) = cache_growth_advice(rows_of(lambda step: 200 + 4 * step, lambda step: 150 + step % 7))
    assert said.topic == "growing cache"
    assert "cuda:0 has reserved 240 MiB more since step 24, and its tensors take at most 156 MiB" in said.text


@pytest.mark.parametrize(
    ("reserved", "peak"),
    [
        (lambda step: 200 + 4 * step, lambda step: 150 + 4 * step),  # what is used grows too
        (lambda step: 200 if step < 40 else 500, lambda step: 150),  # once, and then no more
        (lambda step: 200 + step // 10, lambda step: 150),  # hardly
        (lambda step: 900 - step, lambda step: 150),
        (None, lambda step: 150),  # a device without a cache
    ],
)
def test_a_cache_that_has_filled_or_follows_what_is_used_does_not_grow(reserved, peak) -> None:
    assert cache_growth_advice(rows_of(reserved, peak)) == ()


def test_a_few_steps_are_no_growth() -> None:
    assert cache_growth_advice(rows_of(lambda step: 200 + 40 * step, lambda step: 150, steps=7)) == ()
