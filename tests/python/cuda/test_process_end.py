"""Exit, fork and exceptions: return codes and messages are what they would be without us."""

from __future__ import annotations

BEGIN = """
import torch
from leakguard._native import core, cuda
core.plug_sockets()
core.set_watching(True)
core.attach_cpu()
cuda.attach()
cuda.attach_pinned()
"""


def test_exit_with_everything_live(in_fresh_process):
    in_fresh_process(
        BEGIN
        + """
import builtins
model = torch.nn.Linear(10, 10).cuda()
model(torch.randn(2, 10, device="cuda")).sum().backward()
builtins.kept = [torch.empty(9, device="cuda"), torch.empty(9, pin_memory=True), torch.empty(9), model]
"""
    )


def test_forked_children_are_left_alone(in_fresh_process):
    text = in_fresh_process(
        BEGIN
        + """
import os
x, y = torch.empty(1000, device="cuda"), torch.empty(1000, pin_memory=True)
before = core.counts("cuda:0")
child = os.fork()
if child == 0:
    assert not core.alive()
    del x, y
    os._exit(core.counts("cuda:0") != before)
assert os.waitpid(child, 0)[1] == 0
del x, y
assert core.counts("cuda:0")[0] == before[0] - 1
print("parent goes on")
"""
    )
    assert "parent goes on" in text


def test_an_exception_in_a_hook_is_the_users_own(in_fresh_process):
    text = in_fresh_process(
        BEGIN
        + """
x = torch.ones(10, device="cuda", requires_grad=True)
x.register_hook(lambda gradient: 1 / 0)
try:
    (x * 2).sum().backward()
except ZeroDivisionError as error:
    print(error)
assert cuda.reconcile(0) == (0, 0, 0, 0, 0)
"""
    )
    assert text == "division by zero\n"
