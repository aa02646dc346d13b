"""What a report explains of the caching allocator, from a loop that does each of those things."""

from __future__ import annotations

LOOP = """
import torch, leakguard

before = torch.cuda.empty_cache
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
guard = leakguard.watch(on_exit="never")
for _ in range(20):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    passing = torch.empty(2**22, device="cuda")
    del passing
    EMPTY
KEPT
report = guard.report()
guard.stop()
assert torch.cuda.empty_cache is before and torch.cuda.memory.empty_cache is before
said = {advice.topic: advice.text for advice in report.advice}
assert report.status == "clean", report
"""


def test_a_torn_cache_that_is_emptied_in_each_step(in_fresh_process):
    in_fresh_process(
        LOOP.replace("EMPTY", "torch.cuda.empty_cache()").replace(
            "KEPT", 'kept = [torch.empty(2**18, device="cuda") for _ in range(64)][::2]'
        )
        + """
assert said.keys() >= {"empty_cache", "cache", "fragmentation"}, said
assert "20 times in 20 steps" in said["empty_cache"]
"""
    )


def test_a_cache_that_is_whole_and_left_alone(in_fresh_process):
    in_fresh_process(
        LOOP.replace("EMPTY", "").replace("KEPT", "")
        + """
assert "empty_cache" not in said and "fragmentation" not in said, said
assert "no leak" in said["cache"]
"""
    )
