"""Blocks born in backward carry the line of the forward operation that made their autograd node."""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


class Layer(nn.Module):
    """A transformer layer written out, so that each line is one operation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        qkv = self.qkv(y)
        q, k, v = qkv.unflatten(-1, (3, 4, -1)).movedim(-3, 0).transpose(-2, -3).unbind(0)
        scores = q @ k.transpose(-1, -2)
        weights = torch.softmax(scores, -1)
        mixed = (weights @ v).transpose(-2, -3).flatten(-2)
        x = x + self.project(mixed)
        y = self.norm2(x)
        wide = self.expand(y)
        active = torch.nn.functional.gelu(wide)
        return x + self.contract(active)


LINES = {
    "norm1.weight": "y = self.norm1(x)",
    "qkv.weight": "qkv = self.qkv(y)",
    "project.weight": "x = x + self.project(mixed)",
    "norm2.weight": "y = self.norm2(x)",
    "expand.weight": "wide = self.expand(y)",
    "contract.weight": "return x + self.contract(active)",
}


@pytest.fixture
def user_lines(cuda):
    from leakguard._native import core
    from leakguard.code_rules import code_rules

    core.set_code_rules(code_rules(()))
    yield core
    core.set_code_rules([])


Text = Callable[[int], str]


def text_of(core) -> Text:
    def text(line: int) -> str:
        file, _, number, *_ = core.line(line)
        return linecache.getline(file, number).strip()

    return text


def blocks_born_in_backward(core) -> dict[int, tuple]:
    """Birth number -> group, for what is alive now and was born in backward."""
    found = {}
    for block in core.blocks():
        group = core.group(block[4])
        if group[0] == "cuda:0" and group[1] == "backward":
            found[block[10]] = group
    return found


def test_every_block_of_a_transformer_step(user_lines):
    core, text = user_lines, text_of(user_lines)
    layers = nn.Sequential(*(Layer(32) for _ in range(3))).cuda()
    born: dict[int, tuple] = {}

    def look(_: object) -> None:
        born.update(blocks_born_in_backward(core))

    for _ in range(2):  # gradients live on, so that the second step adds to them
        born.clear()
        handles = [parameter.register_hook(look) for parameter in layers.parameters()]
        x = torch.randn(2, 8, 32, device="cuda", requires_grad=True)
        loss = layers(x).square().mean()
        loss.backward()
        for handle in handles:
            handle.remove()
        look(None)
        assert len(born) > 40
        without = [group for group in born.values() if not text(group[4])]
        assert without == []


def test_gradients_name_their_operation(user_lines):
    core, text = user_lines, text_of(user_lines)
    layer = Layer(32).cuda()
    layer(torch.randn(2, 8, 32, device="cuda")).square().mean().backward()
    groups = {block[0]: core.group(block[4]) for block in core.blocks()}
    for name, line in LINES.items():
        gradient = layer.get_parameter(name).grad
        group = groups[gradient.data_ptr()]
        assert (group[1], text(group[4])) == ("backward", line), name


def test_four_threads_at_once(user_lines):
    """Each thread numbers its own autograd nodes: the numbers overlap, lines must not be mixed up."""
    core, text = user_lines, text_of(user_lines)
    wrong: list[str] = []
    barrier = threading.Barrier(4)

    def make(index: int) -> Callable[[nn.Module, torch.Tensor], torch.Tensor]:
        def zero(layer, x):
            return layer(x).square().mean()

        def one(layer, x):
            return layer(x).abs().sum()

        def two(layer, x):
            return layer(x).exp().mean()

        def three(layer, x):
            return layer(x).sum() * 2

        return (zero, one, two, three)[index]

    def train(index: int) -> None:
        forward = make(index)
        with torch.cuda.stream(torch.cuda.Stream()):
            layer = nn.Linear(16, 16).cuda()
            barrier.wait()
            for _ in range(100):
                layer.zero_grad()
                forward(layer, torch.randn(4, 16, device="cuda")).backward()
                address = layer.weight.grad.data_ptr()
                (group,) = (core.group(block[4]) for block in core.blocks() if block[0] == address)
                if core.line(group[4])[1].split(".")[-1] != forward.__name__:
                    wrong.append(f"{forward.__name__}: {text(group[4])}")

    threads = [threading.Thread(target=train, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_line_in_a_hook_is_the_hooks_own(user_lines):
    core = user_lines
    kept = []
    x = torch.ones(100, device="cuda", requires_grad=True)
    x.register_hook(lambda gradient: kept.append(gradient * 3))
    (x * 2).sum().backward()
    (block,) = (block for block in core.blocks() if block[0] == kept[0].data_ptr())
    group = core.group(block[4])
    assert core.line(group[2])[1].endswith("<lambda>")
    assert group[7] & 8  # the user's line inside backward
