"""Where training steps end, found without a word from the user.

In order of preference: an explicit `leakguard.step()`, an optimizer's step, the end of a backward pass, the
outermost forward of the busiest root module. A run begins with whatever comes first and changes to a better
source when one shows up; what was counted before is set aside as warm-up (`rebase`).

Nothing here is global to torch but the hooks torch offers for it: the optimizers' post-step hook, and two
functions that are wrapped and put back at `remove`: `torch.autograd.backward`, and `GradScaler.step`, because
a scaler that skips an optimizer's step tells nobody.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from leakguard.loop_habits import CodeLine, calling_line
from leakguard.memory_advice import BackwardCalls
from leakguard.optimizer_cycle import OptimizerCycle
from leakguard.phase_times import PhaseTimes

__all__ = ["Source", "StepFinder"]

Source = Literal["explicit", "optimizer", "backward", "forward"]

_RANK: dict[Source | None, int] = {None: 0, "forward": 1, "backward": 2, "optimizer": 3, "explicit": 4}

OFTEN = 3
"""Times that a line is met before it is taken for the training loop's. It is looked for in the 1st, 2nd, 4th, 8th, ...
backward pass."""

MOST_LINES = 16


class StepFinder:
    """Calls `mark()` at the end of each step and `rebase()` before the first step of a better source.

    `guarded(fn)` wraps every function that torch calls, so that a failure of ours never reaches the training
    loop.
    """

    def __init__(
        self,
        mark: Callable[[], None],
        rebase: Callable[[], None],
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
        phases: PhaseTimes,
    ) -> None:
        self.source: Source | None = None
        self._follow_backward = True  # False as soon as there is something better
        self._mark = mark
        self._rebase = rebase
        self._guarded = guarded
        self._phases = phases
        self._in_backward = False
        self._optimizer_began = 0.0
        self._cycle = OptimizerCycle()
        self._optimizer_events = 0
        self._backward_calls = self._retained = 0
        self._backward_lines: Counter[CodeLine] = Counter()
        self._undo: list[Callable[[], None]] = []
        self._forward = ForwardEnds(lambda: self._ended("forward"), guarded)
        self._depth = threading.local()  # of nested backward passes

    def install(self) -> None:
        """Begins to look for steps."""
        self._undo.append(register_optimizer_step_pre_hook(Hook(self._optimizer_begins)).remove)
        handle = register_optimizer_step_post_hook(Hook(self._guarded(self._optimizer_stepped)))
        self._undo.append(handle.remove)
        self._wrap(torch.autograd, "backward", self._wrap_backward)
        self._wrap(torch.amp.GradScaler, "step", self._wrap_scaler_step)

    def reset(self) -> None:
        """Forgets what was found, and goes on looking."""
        self.source = None
        self._follow_backward = True
        self._cycle = OptimizerCycle()
        self._backward_calls = self._retained = 0
        self._backward_lines.clear()
        self._forward.remove()

    def remove(self) -> None:
        """Puts everything back that is still as `install` left it."""
        with contextlib.ExitStack() as back:
            for undo in (self._forward.remove, *self._undo):
                back.callback(undo)
            self._undo.clear()

    @property
    def backward_calls(self) -> BackwardCalls:
        """How often `torch.autograd.backward` ran, which `Tensor.backward` calls."""
        return BackwardCalls(self._backward_calls, self._retained)

    @property
    def backward_line(self) -> CodeLine | None:
        """The line of the user's whose backward pass it is again and again."""
        often = self._backward_lines.most_common(1)
        return often[0][0] if often and often[0][1] >= OFTEN else None

    def explicit_step(self) -> None:
        """The user says that a step is over."""
        self._ended("explicit")

    def follow_forward(self, roots: Iterable[torch.nn.Module]) -> None:
        """Takes the end of these modules' forward calls for steps, as long as there is nothing better."""
        if _RANK[self.source] <= _RANK["forward"]:
            self._forward.follow(roots)

    def _ended(self, source: Source) -> None:
        if source != self.source:
            if _RANK[source] < _RANK[self.source]:
                return
            if self.source is not None:
                self._rebase()
            self.source = source
            self._follow_backward = _RANK[source] <= _RANK["backward"]
            if source != "forward":
                self._forward.remove()
        self._mark()

    def _look_at_caller(self) -> None:
        line = calling_line()
        if line is not None and (line in self._backward_lines or len(self._backward_lines) < MOST_LINES):
            self._backward_lines[line] += 1

    def _optimizer_begins(self, *_: Any) -> None:
        self._optimizer_began = time.perf_counter()

    def _optimizer_stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._optimizer_began:
            self._phases.optimizer += time.perf_counter() - self._optimizer_began
            self._optimizer_began = 0.0
        self._optimizer_events += 1
        if self._cycle.ends_step(optimizer):
            self._ended("optimizer")

    def _wrap(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        wrapper = wrap(original)
        setattr(owner, name, wrapper)

        def undo() -> None:
            # Somebody may have wrapped it again: then ours stays inside, inert.
            if getattr(owner, name) is wrapper:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _wrap_backward(self, original: Callable[..., None]) -> Callable[..., None]:
        ended = self._guarded(lambda: self._ended("backward"))
        look = self._guarded(self._look_at_caller)

        def timed(*args: Any, **kwargs: Any) -> None:
            if self._in_backward:  # one inside another, or in another thread at the same time
                original(*args, **kwargs)
                return
            self._in_backward = True
            began = time.perf_counter()
            try:
                original(*args, **kwargs)
            finally:
                self._phases.backward += time.perf_counter() - began
                self._in_backward = False

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> None:
            self._backward_calls += 1
            if not self._backward_calls & (self._backward_calls - 1):
                look()
            if (args[2] if len(args) > 2 else kwargs.get("retain_graph")) and not (
                args[3] if len(args) > 3 else kwargs.get("create_graph")
            ):
                self._retained += 1
            if not self._follow_backward:
                timed(*args, **kwargs)
                return
            depth = getattr(self._depth, "value", 0)
            self._depth.value = depth + 1
            try:
                timed(*args, **kwargs)
            finally:
                self._depth.value = depth
            if depth == 0 and self._undo:
                ended()

        return backward

    def _wrap_scaler_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        skipped = self._guarded(self._optimizer_stepped)

        @functools.wraps(original)
        def step(scaler: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
            before = self._optimizer_events
            result = original(scaler, optimizer, *args, **kwargs)
            if self._optimizer_events == before and self._undo:  # gradients overflowed: the step was skipped
                skipped(optimizer)
            return result

        return step


class Hook:
    """A function of ours in torch's hands, which must not show there.

    A compiler that traces the model sees nothing in it: with what we do in a hook it would break the graph,
    and fail where none may break. A copy of the model, pickled or deep, gets a hook that does nothing and
    needs no leakguard: ours could be taken away from the original only.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> None:
        if not torch.compiler.is_compiling():
            self._function(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")  # takes anything and returns None


class ForwardEnds:
    """Ends of the outermost forward calls of the busiest among some root modules."""

    def __init__(
        self, ended: Callable[[], None], guarded: Callable[[Callable[..., None]], Callable[..., None]]
    ) -> None:
        self._ended = ended
        self._guarded = guarded
        self._handles: list[Any] = []
        self._followed: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._calls: dict[int, int] = {}
        self._busiest: int | None = None
        self._local = threading.local()

    def follow(self, roots: Iterable[torch.nn.Module]) -> None:
        """Hooks each module that is not followed yet: that instance only."""
        for root in roots:
            if any(root is known for known in self._followed):
                continue
            self._followed.add(root)
            self._handles.append(root.register_forward_pre_hook(Hook(self._guarded(self._began))))
            self._handles.append(
                root.register_forward_hook(Hook(self._guarded(self._finished)), always_call=True)
            )

    def remove(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._followed.clear()

    def _began(self, *_: Any) -> None:
        self._local.depth = getattr(self._local, "depth", 0) + 1

    def _finished(self, module: torch.nn.Module, *_: Any) -> None:
        self._local.depth = max(0, getattr(self._local, "depth", 1) - 1)
        if self._local.depth:
            return
        key = id(module)
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._busiest is None or self._calls[key] > self._calls.get(self._busiest, 0):
            self._busiest = key
        if key == self._busiest:
            self._ended()
