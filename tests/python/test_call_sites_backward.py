"""Blocks born in backward carry the forward line and module that made their node, or the line of the user's
own code that ran there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from birth_places import born, groups_born_in, marked_lines, watching  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from leakguard._native import core  # noqa: E402

HERE = marked_lines(__file__)
USER_LINE_IN_BACKWARD = 8


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.query_key_value(x).chunk(3, dim=-1)  # @attention_begin
        weights = (q @ k.transpose(-2, -1) * 0.2).softmax(-1)
        return self.output(weights @ v)  # @attention_end


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.wide = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))  # @layer_begin
        return x + self.narrow(F.gelu(self.wide(x)))  # @layer_end


class Transformer(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))
        self.head = nn.Linear(width, 30)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)  # @transformer_begin
        for layer in self.layers:
            x = layer(x)
        return self.head(x)  # @transformer_end


def tokens() -> torch.Tensor:
    return torch.randint(0, 30, (3, 7))


def loss_of(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    logits = model(batch)
    return F.cross_entropy(logits.flatten(0, 1), batch.flatten())  # @loss


FORWARD_RANGES = [
    range(HERE[f"{name}_begin"], HERE[f"{name}_end"] + 1) for name in ("attention", "layer", "transformer")
]


def is_forward_line(line: int) -> bool:
    return line == HERE["loss"] or any(line in lines for lines in FORWARD_RANGES)


class TestTransformer:
    """Every block of the backward pass of a small transformer."""

    def test_every_backward_block_has_a_forward_line(self) -> None:
        model = Transformer()
        with watching(model):

            def two_steps() -> None:  # the first makes the gradients, the second adds to them
                loss_of(model, tokens()).backward()
                loss_of(model, tokens()).backward()

            groups = groups_born_in(two_steps, "backward")
            assert len(groups) > 20
            for _, _, _, _, forward_line, _, node, flags in groups:
                file, _, line, *_ = core.line(forward_line)
                assert file == __file__, f"{node} has no forward line"
                assert is_forward_line(line), (node, line)
                assert not flags & USER_LINE_IN_BACKWARD

    def test_gradients_have_the_line_and_module_of_their_layer(self) -> None:
        model = Transformer()
        with watching(model):
            loss_of(model, tokens()).backward()
            for name, parameter in model.named_parameters():
                birth = born(parameter.grad)
                assert birth.module == name.rpartition(".")[0], name
                assert birth.place.phase == "backward"
                assert birth.place.file == __file__
                assert is_forward_line(birth.place.line)
                assert birth.place.op is not None
            query = born(model.layers[0].attention.query_key_value.weight.grad).place
            assert query.line == HERE["attention_begin"]
            assert query.expression == "self.query_key_value(x)"
            assert query.function == "Attention.forward"
            assert born(model.head.weight.grad).place.expression == "self.head(x)"

    def test_four_threads_training_at_once_keep_to_their_own_lines(self) -> None:
        results: list[str] = []
        models = [Transformer() for _ in range(4)]
        start = threading.Barrier(4)

        def forwards() -> list[Callable[[nn.Module], torch.Tensor]]:
            # fmt: off
            return [
                lambda m: loss_of(m, tokens()) * (m.head.weight * 1.0).sum(),  # @thread0
                lambda m: loss_of(m, tokens()) * (m.head.weight * 2.0).sum(),  # @thread1
                lambda m: loss_of(m, tokens()) * (m.head.weight * 3.0).sum(),  # @thread2
                lambda m: loss_of(m, tokens()) * (m.head.weight * 4.0).sum(),  # @thread3
            ]
            # fmt: on

        def work(index: int) -> None:
            model, forward = models[index], forwards()[index]
            seen: list[torch.Tensor] = []
            for _ in range(15):
                start.wait()
                model.zero_grad()
                product = forward(model)
                extra = (model.head.bias * 5.0).exp()  # noqa: F841
                product.backward()
                gradients = {name: p.grad for name, p in model.named_parameters()}
                seen.append(gradients["head.weight"])
                for name, gradient in gradients.items():
                    birth = born(gradient)
                    wanted = name.rpartition(".")[0]
                    at_head = name == "head.weight" and birth.place.line == HERE[f"thread{index}"]
                    if (
                        not (birth.module.endswith(wanted) and is_forward_line(birth.place.line))
                        and not at_head
                    ):
                        results.append(f"thread {index}: {name} at {birth}")

        with watching(*models):
            threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert results == []


class Doubled(torch.autograd.Function):
    kept: dict[str, torch.Tensor]

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        Doubled.kept["forward"] = x + 0  # @function_forward
        return x * 2

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        Doubled.kept["backward"] = grad + 0  # @function_backward
        return grad * 2  # @function_result


@pytest.fixture
def weight() -> Iterator[torch.Tensor]:
    with watching():
        yield torch.ones(5, requires_grad=True)


class TestUserCodeInBackward:
    """The user's own code that runs inside the backward pass is named itself."""

    def test_custom_function(self, weight: torch.Tensor) -> None:
        Doubled.kept = {}
        Doubled.apply(weight.sin()).sum().backward()
        forward, backward = born(Doubled.kept["forward"]).place, born(Doubled.kept["backward"]).place
        assert (forward.line, forward.phase, forward.function) == (
            HERE["function_forward"],
            "other",
            "Doubled.forward",
        )
        assert (backward.line, backward.phase) == (HERE["function_backward"], "backward")
        assert backward.expression == "grad + 0"
        assert backward.function == "Doubled.backward"

    def test_tensor_hook(self, weight: torch.Tensor) -> None:
        kept = []
        hidden = weight.sin()
        hidden.register_hook(lambda grad: kept.append(grad * 3))  # @tensor_hook
        hidden.sum().backward()
        place = born(kept[0]).place
        assert (place.line, place.phase) == (HERE["tensor_hook"], "backward")
        assert place.expression == "grad * 3"

    def test_hook_after_accumulation(self, weight: torch.Tensor) -> None:
        kept = []
        weight.register_post_accumulate_grad_hook(lambda p: kept.append(p.grad * 3))  # @post_hook
        weight.sin().sum().backward()
        assert born(kept[0]).place.line == HERE["post_hook"]

    def test_full_backward_hook_of_a_module(self) -> None:
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        kept = []
        model[1].register_full_backward_hook(lambda m, g_in, g_out: kept.append(g_out[0] * 3))  # @module_hook
        with watching(model):
            model(torch.ones(2, 3)).sum().backward()
            place = born(kept[0]).place
        assert (place.line, place.phase) == (HERE["module_hook"], "backward")

    def test_saved_tensor_hooks(self, weight: torch.Tensor) -> None:
        kept = []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            kept.append(tensor + 0)  # @pack
            return tensor

        def unpack(tensor: torch.Tensor) -> torch.Tensor:
            kept.append(tensor + 0)  # @unpack
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            result = weight.exp().sum()
        result.backward()
        assert born(kept[0]).place.line == HERE["pack"]
        unpacked = born(kept[-1]).place
        assert (unpacked.line, unpacked.phase) == (HERE["unpack"], "backward")


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.second = nn.Linear(6, 2)
        self.reentrant = reentrant
        self.kept: list[torch.Tensor] = []

    def block(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)  # @checkpoint_first
        self.kept.append(hidden * 2)  # @recomputed
        return self.second(hidden.tanh())  # @checkpoint_second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.block, x, use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_blocks_have_the_lines_of_the_block(reentrant: bool) -> None:
    model = Checkpointed(reentrant)
    with watching(model):
        for _ in range(3):
            model.zero_grad()
            model.kept.clear()
            model(torch.ones(3, 4, requires_grad=True)).sum().backward()
            assert len(model.kept) == 2
            for tensor, phase in zip(model.kept, ("forward", "backward"), strict=True):
                place = born(tensor).place
                assert (place.line, place.phase) == (HERE["recomputed"], phase)
            for name, line in (("first", "checkpoint_first"), ("second", "checkpoint_second")):
                birth = born(getattr(model, name).weight.grad)
                assert birth.place.phase == "backward"
                assert birth.place.line == HERE[line], (name, birth)
                assert birth.module == name


class TestGraphs:
    def test_double_backward_names_the_forward_line(self, weight: torch.Tensor) -> None:
        y = (weight.sin() * weight.exp()).sum()  # @double_forward
        (grad,) = torch.autograd.grad(y, weight, create_graph=True)
        assert born(grad).place.line == HERE["double_forward"]
        groups = groups_born_in(lambda: grad.square().sum().backward(), "backward")  # @double_backward
        lines = {core.line(forward_line)[2] for _, _, _, _, forward_line, *_ in groups}
        assert lines == {HERE["double_forward"], HERE["double_backward"]}

    def test_a_graph_from_before_watching_is_nobodys(self) -> None:
        weight = torch.ones(5, requires_grad=True)
        old = (weight.sin() * 2).exp()
        with watching():
            fresh = torch.zeros(3), weight * 3  # noqa: F841
            old.sum().backward()  # @old_backward
            place = born(weight.grad).place
        assert place.phase == "backward"
        assert place.line == HERE["old_backward"]

    def test_a_graph_from_between_two_watches_is_nobodys(self) -> None:
        weight = torch.ones(5, requires_grad=True)
        with watching():
            seen = weight.cos()  # noqa: F841
        old = (weight.sin() * 2).exp()
        with watching():
            fresh = torch.zeros(3), weight * 3  # noqa: F841
            old.sum().backward()  # @between_backward
            place = born(weight.grad).place
        assert place.line == HERE["between_backward"]

    def test_backward_of_another_threads_graph_has_its_line(self) -> None:
        weight = torch.ones(5, requires_grad=True)
        made = []
        done, used = threading.Event(), threading.Event()

        def forward() -> None:
            made.append(weight.exp().sin())  # @other_thread
            done.set()
            used.wait()

        with watching():
            thread = threading.Thread(target=forward)
            thread.start()
            done.wait()
            made[0].sum().backward()
            assert born(weight.grad).place.line == HERE["other_thread"]
            used.set()
            thread.join()
