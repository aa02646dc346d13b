"""One step sampled, when somebody asks: births and deaths are written down, and at a few moments a walk says what the
live blocks are. So the step's peak, at which nobody could walk, is made of blocks that a walk has met before or after,
or of such as were born at the same line in the same module.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from leakguard._native import core
from leakguard.categories import Categories, Role
from leakguard.step_sample import Moment, MomentMemory, StepSample
from leakguard.steps import Hook
from leakguard.watched_modules import WatchedModules

__all__ = ["StepSampler"]

MOST_EVENTS = 1 << 18
"""Room for a step's births and deaths: 16 MiB, for the length of that step."""

MOST_WALKS = 12
"""Looks at one step; a model that runs its forward many times in a step gets no more."""

SHORT_LIVED = ("activation", "autograd_detail", "temporary")
"""What a block can be that no walk has met: a line that makes a gradient makes other things too, which die first."""

Block = tuple[Any, ...]
Key = tuple[int, int]


class StepSampler:
    """Idle until `ask()`; then the next whole step is sampled, and `sample` is what was seen.

    `residents` gives the addresses of the libraries' workspaces; `guarded` wraps what torch calls.
    """

    def __init__(
        self,
        modules: WatchedModules,
        residents: Callable[[], Iterable[int]],
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        self.sample: StepSample | None = None
        self.busy = False  # there is something to do at the end of a step
        self._modules = modules
        self._residents = residents
        self._guarded = guarded
        self._hooks: list[Any] = []
        self._running = False
        self._forget()

    def ask(self) -> None:
        """The next step that begins is sampled."""
        self.busy = True

    def restart(self) -> None:
        """Steps end elsewhere from now on: the one that is being sampled is none."""
        if self._running:
            self.cancel()
            self.ask()

    def step_ended(self, step: int) -> None:
        """To be called at the end of each step while `busy`."""
        if self._running:
            self._finish(step)
            self.busy = False
        else:
            self._begin()

    def cancel(self) -> None:
        """Takes everything back."""
        with contextlib.ExitStack() as back:
            for hook in self._hooks:
                back.callback(hook.remove)
            self._hooks.clear()
            if self._running:
                back.callback(core.end_record)
        self._running = self.busy = False
        self._forget()

    def _forget(self) -> None:
        self._walks = 0
        self._base: dict[Key, Block] = {}
        self._roles: dict[Key, Role] = {}
        self._sites: dict[tuple[int, str], Counter[str]] = {}
        self._moments: dict[str, Moment] = {}

    def _begin(self) -> None:
        if not self._modules.roots():
            self._modules.search()
        self._running = True
        core.begin_record(MOST_EVENTS)
        self._base = {_key(block): block for block in core.blocks() if not block[7]}
        self._look("step begin")
        for root in self._modules.roots():
            for module in _callable(root):
                self._hooks.append(module.register_forward_hook(self._visit("after forward")))
            trained = [parameter for parameter in root.parameters() if parameter.requires_grad]
            if trained and trained[len(trained) // 2].is_leaf:
                middle = trained[len(trained) // 2]
                place: Any = middle.register_post_accumulate_grad_hook
                self._hooks.append(place(self._visit("mid-backward")))

    def _visit(self, moment: str) -> Hook:
        return Hook(self._guarded(lambda *_: self._look(moment)))

    def _look(self, moment: str, *, last: bool = False) -> None:
        if not self._running or (self._walks >= MOST_WALKS and not last):
            return
        self._walks += 1
        categories = Categories(self._modules, self._residents())
        found = []
        for block in core.blocks():
            if block[7]:  # let go of; a stream still uses it
                continue
            role = categories.of(block)
            found.append((block, role))
            self._roles[_key(block)] = role
            if role.category in SHORT_LIVED:
                self._sites.setdefault((block[4], block[5]), Counter())[role.category] += 1
        self._keep(_moment(moment, found))

    def _keep(self, moment: Moment) -> None:
        known = self._moments.get(moment.name)
        if known is None or sum(one.bytes for one in moment.memory) > sum(one.bytes for one in known.memory):
            self._moments[moment.name] = moment

    def _finish(self, step: int) -> None:
        try:
            self._look("step end", last=True)
            events, missed = core.end_record()
            peak = [(block, self._role(block)) for block in _peak(self._base, events)]
            self._keep(_moment("peak", peak))
            self.sample = StepSample(step=step, moments=tuple(self._moments.values()), missed_events=missed)
        finally:
            self.cancel()

    def _role(self, block: Block) -> Role:
        role = self._roles.get(_key(block))
        if role is not None:
            return role
        site = self._sites.get((block[4], block[5]))
        if site:
            return Role(site.most_common(1)[0][0], block[5] or None)
        return Categories.of_short_lived(block)


def _callable(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The module, or those in it that are called in its place when it has no forward of its own."""
    if type(module).forward is not torch.nn.Module.forward:
        yield module
    else:
        for child in module.children():
            yield from _callable(child)


def _key(block: Block) -> Key:
    return block[0], block[10]


def _peak(base: dict[Key, Block], events: list[tuple[bool, Block]]) -> list[Block]:
    """The blocks that lived when their device had most bytes, first time it had."""
    now: Counter[str] = Counter()
    for block in base.values():
        now[block[2]] += block[1]
    most = dict(now)
    when = dict.fromkeys(most, -1)
    live = dict(base)
    for index, (born, block) in enumerate(events):
        if _apply(live, born, block):
            now[block[2]] += block[1] if born else -block[1]
            if now[block[2]] > most.get(block[2], -1):
                most[block[2]], when[block[2]] = now[block[2]], index
    found = [block for block in base.values() if when[block[2]] == -1]
    live = dict(base)
    moments = {index: device for device, index in when.items() if index >= 0}
    for index, (born, block) in enumerate(events):
        _apply(live, born, block)
        if index in moments:
            found += [one for one in live.values() if one[2] == moments[index]]
    return found


def _apply(live: dict[Key, Block], born: bool, block: Block) -> bool:
    key = _key(block)
    if born == (key in live):
        return False  # while the record began
    if born:
        live[key] = block
    else:
        del live[key]
    return True


def _moment(name: str, found: Iterable[tuple[Block, Role]]) -> Moment:
    sums: dict[tuple[str, Role], tuple[int, int]] = {}
    for block, role in found:
        size, blocks = sums.get((block[2], role), (0, 0))
        sums[block[2], role] = (size + block[1], blocks + 1)
    memory = [
        MomentMemory(device=device, category=role.category, module=role.module, bytes=size, blocks=blocks)
        for (device, role), (size, blocks) in sums.items()
    ]
    memory.sort(key=lambda one: (one.device, -one.bytes, one.category, one.module or ""))
    return Moment(name=name, memory=tuple(memory))
