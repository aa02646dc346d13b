"""What each live block is: a parameter, a gradient, an activation, ...; in the words of PyTorch's memory profiler.

First by identity: one walk over the heap and the autograd graph finds the modules, the optimizers and all that
refers to memory, whether anybody has told leakguard of them or not. What is none of theirs is told by its birth, and
by whether a tensor or the graph still refers to it. Nothing of the user's is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Optimizer

from leakguard._native import core
from leakguard.watched_modules import WatchedModules

__all__ = ["WANTED", "Categories", "Role"]

WANTED = (torch.nn.Parameter, (torch.nn.Module, Optimizer))
"""What a walk looks for: the type of parameters, and the types that own memory."""

RECOMPUTED = 32  # block_flag::kRecomputed
ACCUMULATE = "torch::autograd::AccumulateGrad"
DEEPEST = 8
"""How far containers are followed below an optimizer's attributes."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a block is, and the path of the module whose it is, where that is known."""

    category: str
    module: str | None = None


class Categories:
    """The roles of all blocks that live when this is made; it keeps no object of the program's.

    `residents` are addresses of the libraries' workspaces, `facts` what a walk for WANTED has found, if there was one
    already. Without `modules` there are no paths.
    """

    def __init__(
        self,
        modules: WatchedModules | None = None,
        residents: Iterable[int] = (),
        facts: tuple[dict[int, int], list[Any], bool] | None = None,
    ) -> None:
        self._phases: dict[int, str] = {}
        self._residents = frozenset(residents)
        self._facts, instances, self._graph_seen = facts or core.memory_facts(*WANTED)
        found = [one for one in instances if issubclass(type(one), torch.nn.Module)]
        optimizers = [one for one in instances if not issubclass(type(one), torch.nn.Module)]
        paths = modules.paths(found) if modules is not None else {}
        self._named = _named(found, paths, optimizers, self._graph_seen)

    def of(self, block: tuple[Any, ...]) -> Role:
        """The role of a block of `core.blocks()`."""
        address, group, module, node, pending, flags = block[0], *block[4:9]
        if pending:  # the program has let go of it, a stream has not
            return Role("temporary", module or None)
        named = self._named.get(address)
        if named is not None:
            return named
        phase = self._phases.get(group)
        if phase is None:
            phase = self._phases[group] = core.group(group)[1]
        return Role(self._by_birth(address, phase, node, flags), module or None)

    @staticmethod
    def of_short_lived(block: tuple[Any, ...]) -> Role:
        """The role of a block that died before anybody could look, and whose like was not met either."""
        phase = core.group(block[4])[1]
        if block[8] & RECOMPUTED:
            category = "activation"
        elif phase == "backward":
            category = "gradient" if block[6] == ACCUMULATE else "autograd_detail"
        else:
            category = "temporary"
        return Role(category, block[5] or None)

    def _by_birth(self, address: int, phase: str, node: str, flags: int) -> str:
        facts = self._facts.get(address, 0)
        if facts & core.PARAMETER:
            return "parameter"
        if facts & core.GRADIENT:
            return "gradient"
        if address in self._residents:
            return "temporary"
        held = facts or not self._graph_seen  # by the graph, perhaps
        if flags & RECOMPUTED:
            return "activation" if held else "temporary"
        if phase == "backward":
            if node == ACCUMULATE or facts == core.TENSOR:
                return "gradient"
            return "autograd_detail"
        if facts & core.COMPUTED:
            return "activation"
        if phase == "forward":
            return "activation" if held else "temporary"
        if phase == "optimizer":
            return "optimizer_state" if facts & core.TENSOR else "temporary"
        return "input" if facts else "unknown"


def _named(
    modules: Sequence[torch.nn.Module],
    paths: Mapping[int, str],
    optimizers: Sequence[Optimizer],
    graph_seen: bool,
) -> dict[int, Role]:
    """Roles by address, of what modules and optimizers own. Of several owners the first counts."""
    named: dict[int, Role] = {}
    parameters: list[tuple[Any, str | None]] = []
    for module in modules:
        path = paths.get(id(module))
        for _, tensor in _items(module.__dict__.get("_parameters")):
            parameters.append((tensor, path))
    for optimizer in optimizers:
        for group in _values(optimizer.__dict__.get("param_groups")):
            parameters += ((tensor, None) for tensor in _values(dict(_items(group)).get("params")))
    for tensor, path in parameters:
        _enter(named, tensor, Role("parameter", path))
    for module in modules:
        for _, tensor in _items(module.__dict__.get("_buffers")):
            _enter(named, tensor, Role("buffer", paths.get(id(module))))
    for tensor, path in parameters if graph_seen else ():
        for part in _tensors(tensor):
            for address in core.data_addresses(part, gradient=True):
                named.setdefault(address, Role("gradient", path))
    for optimizer in optimizers:
        for parameter, state in _items(optimizer.__dict__.get("state")):
            path = next((named[at].module for at in _memory(parameter) if at in named), None)
            _enter(named, state, Role("optimizer_state", path))
        _enter(named, optimizer.__dict__, Role("optimizer_state"))
    return named


def _enter(named: dict[int, Role], value: object, role: Role) -> None:
    for address in _memory(value):
        named.setdefault(address, role)


def _memory(value: object) -> Iterator[int]:
    for tensor in _tensors(value):
        yield from core.data_addresses(tensor)


def _tensors(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors in nested containers, and those that a tensor is a wrapper of."""
    if issubclass(type(value), torch.Tensor):
        yield value  # not isinstance: a proxy answers for another class
        if type(value) not in (torch.Tensor, torch.nn.Parameter) and depth < DEEPEST:
            for _, inner in _items(value.__dict__):
                yield from _tensors(inner, depth + 1)
    elif depth < DEEPEST:
        for inner in _values(value):
            yield from _tensors(inner, depth + 1)


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    """The entries of a dictionary, past whatever its class makes of it."""
    return iter(list(dict.items(value))) if issubclass(type(value), dict) else iter(())


def _values(value: Any) -> Iterator[Any]:
    """What is in a builtin container."""
    kind = type(value)
    if issubclass(kind, dict):
        return iter(list(dict.values(value)))
    for container in (list, tuple, set):
        if issubclass(kind, container):
            return iter(list(container.__iter__(value)))
    return iter(())
