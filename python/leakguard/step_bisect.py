"""`leakguard.bisect`: which part of a training step leaks, from a test or a notebook.

Run as a module, this file is one trial: it makes the step function and calls it.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from leakguard.bisection import Bisection, Method, Trial, search
from leakguard.caller import why_inert
from leakguard.components import switched
from leakguard.trials import FreshTrials, trial_of

__all__ = ["bisect"]

FEWEST_STEPS = 12

StepMaker = Callable[[], Callable[[], object]]


def bisect(
    make_step: str | StepMaker,
    components: Sequence[str] | None = None,
    *,
    method: Method = "halves",
    steps: int = 40,
    timeout: float | None = None,
) -> Bisection:
    """Finds the parts of a training step that leak, or that leak only together. Print the result.

    `make_step` makes a function that does one step, whose parts are guarded by `if leakguard.component("name"):`. As
    `"package.module:name"` it is looked up in a fresh process for each trial, which imports what this one could
    import. As a callable it runs in this process: what one trial leaves behind, the next one finds, and the result
    says so. `components` are the names to try; None: those that the first trial asks for. `method="each"` takes one
    part at a time instead of halves. Each trial takes `steps` steps; one that is a process and takes longer than
    `timeout` seconds is ended, and decides something only when it has come far enough.

    Raises ValueError for a name without a colon, for steps below 12, or a method that is not known.
    """
    if steps < FEWEST_STEPS:
        raise ValueError(f"steps is {steps}: growth is told from warm-up after {FEWEST_STEPS} steps")
    if not isinstance(make_step, str):
        subject = getattr(make_step, "__qualname__", None) or type(make_step).__qualname__
        trial = partial(_trial_here, make_step, steps)
        return search(trial, subject, components, method=method, fresh=False)
    module, colon, name = make_step.partition(":")
    if not (module and colon and name):
        raise ValueError(
            f'make_step is {make_step!r}: write "package.module:name", or hand over the function'
        )
    told = json.dumps({"module": module, "name": name, "steps": steps, "path": sys.path})
    fresh = FreshTrials(["-m", "leakguard.step_bisect", told], timeout=timeout)
    return search(fresh, make_step, components, method=method)


def _trial_here(make_step: StepMaker, steps: int, off: frozenset[str]) -> Trial:
    began = time.monotonic()
    with switched(off) as asked:
        trial = _watched(make_step, steps)
        gc.collect()  # what this trial let go of is not the next one's
        return replace(trial, off=tuple(sorted(off)), asked=tuple(asked), seconds=time.monotonic() - began)


def _watched(make_step: StepMaker, steps: int) -> Trial:
    inert = why_inert()
    if inert is not None:
        return Trial(off=(), outcome="undecided", why=inert)
    from leakguard.guard import current, watch_for_a_while

    own = watch_for_a_while(seek_modules=True)
    guard = own or current()
    assert guard is not None
    try:
        guard.restart()
        step = make_step()
        for _ in range(steps):
            step()
            guard.step()
        report = guard.report()
        guard.restart()
    except Exception as error:
        return Trial(off=(), outcome="undecided", why=f"it raised {type(error).__name__}: {error}")
    finally:
        if own is not None:
            own.discard()
    return trial_of(report)


def _main(told: str) -> None:
    trial = json.loads(told)
    sys.path[:] = trial["path"]
    import leakguard

    make_step = importlib.import_module(trial["module"])
    for name in trial["name"].split("."):
        make_step = getattr(make_step, name)
    step = make_step()  # type: ignore[operator]  # whatever it is, calling it tells
    for _ in range(trial["steps"]):
        step()
        leakguard.step()


if __name__ == "__main__":
    _main(sys.argv[1])
