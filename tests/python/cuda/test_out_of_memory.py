"""An allocation that fails for good leaves a record; torch's exception stays what it is."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")
MIB = 1 << 20


@pytest.fixture
def little_memory():
    """Leaves the process about 64 MiB to reserve."""
    torch.empty(1, device="cuda")
    gc.collect()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 64 * MIB) / total)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


def fill(pieces: list[torch.Tensor], size: int) -> str:
    try:
        while True:
            pieces.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        return str(error)


def test_who_held_how_much(cuda, little_memory):
    from leakguard._native import core

    before = cuda.out_of_memory_count()
    hoard: list[torch.Tensor] = []
    fill(hoard, 10 * MIB)
    address = hoard[0].data_ptr()
    hoard.clear()  # the record is of the moment of failure
    assert cuda.out_of_memory_count() == before + 1
    record = cuda.out_of_memory()
    assert record["device"] == 0
    assert record["asked"] >= 10 * MIB
    assert 64 * MIB <= record["limit"] < torch.cuda.get_device_properties(0).total_memory // 2
    assert record["device_free"] == torch.cuda.mem_get_info()[0]
    blocks = {block[0]: block for block in record["blocks"]}
    _, requested, device, group, _, _, pending = blocks[address]
    assert (requested, device, pending) == (10 * MIB, "cuda:0", False)
    file, function, *_ = core.line(core.group(group)[2])
    assert (file, function) == (__file__, "fill")
    assert core.line(record["line"])[1] == "fill"
    held = sum(size for _, size, device, *_, pending in record["blocks"] if device == "cuda:0")
    reserved = sum(size for device, _, size, *_ in record["segments"] if device == "cuda:0")
    assert reserved >= 60 * MIB
    assert 50 * MIB <= held <= reserved


def test_largest_free_piece(cuda, little_memory):
    """Half of the memory is free and no piece of it is large enough."""
    pieces: list[torch.Tensor] = []
    fill(pieces, 2 * MIB)
    del pieces[::2]
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(24 * MIB, dtype=torch.uint8, device="cuda")
    largest = max(piece for _, _, _, _, piece, *_ in cuda.out_of_memory()["segments"])
    free = sum(size - active for _, _, size, active, *_ in cuda.out_of_memory()["segments"])
    assert free >= 24 * MIB > largest
    pieces.clear()


def test_the_exception_is_torchs_own(cuda, little_memory):
    cuda.detach()
    plain = fill([], 10 * MIB)
    cuda.attach()
    watched = fill([], 10 * MIB)
    assert watched == plain


def test_a_program_that_retries(cuda, little_memory):
    kept: list[torch.Tensor] = []
    fill(kept, 10 * MIB)
    kept.clear()
    x = torch.empty(20 * MIB, dtype=torch.uint8, device="cuda")
    assert cuda.reconcile(0) == (0, 0, 0, 0, 0)
    del x


def test_the_next_block_does_not_inherit_the_failed_ones_context(cuda, little_memory):
    """The failure throws through the wrapper; what is born around it afterwards reads its own line."""
    from leakguard._native import core

    fill([], 10 * MIB)
    after = torch.empty(321, dtype=torch.uint8, device="cuda")
    (group,) = (block[4] for block in core.blocks() if block[0] == after.data_ptr())
    line = core.line(core.group(group)[2])
    assert line[1] == "test_the_next_block_does_not_inherit_the_failed_ones_context"


def test_an_allocation_that_is_retried_leaves_no_record(cuda, little_memory):
    before = cuda.out_of_memory_count()
    torch.cuda.empty_cache()
    pieces = [torch.empty(20 * MIB, dtype=torch.uint8, device="cuda") for _ in range(2)]
    del pieces
    retries = torch.cuda.memory_stats()["num_alloc_retries"]
    torch.empty(50 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()["num_alloc_retries"] == retries + 1
    assert cuda.out_of_memory_count() == before


def test_the_report_says_who_held_how_much(needs_cuda, little_memory):
    import leakguard

    hoard: list[torch.Tensor] = []

    def keep(size: int) -> None:
        hoard.append(torch.empty(size, dtype=torch.uint8, device="cuda"))

    class Keeper(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            keep(10 * MIB)
            return x

    with leakguard.watch(on_exit="never") as guard:
        keep(5 * MIB)
        Keeper()(torch.ones(1))  # the same line in another phase
        fill(hoard, 20 * MIB)
        report = guard.report()
    (advice,) = (advice for advice in report.advice if advice.topic == "out of memory")
    assert "20.0 MiB were asked for" in advice.text
    held = [piece.split(" born at ") for piece in advice.text.partition("Held then: ")[2].split("; ")]
    here = [size for size, place in held if place.startswith(f"{__file__}:")]
    assert sorted(here) == ["15.0 MiB", "40.0 MiB"]
