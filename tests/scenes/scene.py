"""What a scene is: a training loop as a user would write it, and what the report must say of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Source = Literal["explicit", "optimizer", "backward", "forward"]
Needs = Literal["nothing", "values", "cpu"]

LEAKS: dict[str, Scene] = {}
WARNINGS: dict[str, Scene] = {}
CLEAN: dict[str, Scene] = {}

FLOAT = 4  # bytes


class Steps:
    """The numbers of the steps to train, for a scene to loop over. When they have all been taken, and the
    scene's locals are still there, `at_end` is called."""

    def __init__(self, count: int, at_end: Callable[[], None] = lambda: None) -> None:
        self.count = count
        self._at_end = at_end

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        yield from range(self.count)
        self._at_end()

    def epochs(self, length: int) -> Iterator[range]:
        """The same in epochs of `length` steps; the last one may be shorter."""
        for first in range(0, self.count, length):
            yield range(first, min(first + length, self.count))
        self._at_end()


Loop = Callable[[Steps], None]


@dataclass(frozen=True)
class Scene:
    """One loop and its answer.

    `steps` is enough for the verdict, `long_steps` what a thorough run takes. `source` is how the steps must
    be found, `count` how many of them when `n` iterations ran. For a leak and a warning: `lines` are those that
    may be named, `holder` is a name on the way to the tensors (None when there is no such name), and bytes
    and blocks a step are those of all that grows. When it `leads`, its line comes first, else it is among the
    lines of the first finding. A loop that `needs` "values" looks at what its operators computed, one that
    needs "cpu" runs there only.
    """

    name: str
    loop: Loop
    file: Path
    steps: int
    long_steps: int
    source: Source
    count: Callable[[int], int]
    lines: tuple[int, ...] = ()
    holder: str | None = None
    verdict: str = "growing"
    bytes_per_step: float | None = None
    blocks_per_step: float | None = None
    tolerance: float = 0.1  # of bytes and blocks a step
    leads: bool = True
    phase: str | None = None
    needs: Needs = "nothing"


def leak(
    *,
    holder: str | None,
    bytes_per_step: float | None,
    blocks_per_step: float | None = None,
    tolerance: float = 0.1,
    steps: int = 40,
    long_steps: int = 200,
    source: Source = "optimizer",
    count: Callable[[int], int] = lambda n: n,
    leads: bool = True,
    phase: str | None = None,
    needs: Needs = "nothing",
) -> Callable[[Loop], Loop]:
    """Registers a loop that leaks. The lines at which the leaked blocks are born end in the comment `#
    leaks`; outside the loop's own function they end in `# leaks in NAME`."""

    def register(loop: Loop) -> Loop:
        LEAKS[loop.__name__] = Scene(
            name=loop.__name__,
            loop=loop,
            file=Path(inspect.getfile(loop)),
            steps=steps,
            long_steps=long_steps,
            source=source,
            count=count,
            lines=_marked_lines(loop),
            holder=holder,
            bytes_per_step=bytes_per_step,
            blocks_per_step=blocks_per_step,
            tolerance=tolerance,
            leads=leads,
            phase=phase,
            needs=needs,
        )
        return loop

    return register


def warning(
    verdict: Literal["waiting-for-gc", "bounded"],
    *,
    holder: str | None = None,
    bytes_per_step: float | None,
    blocks_per_step: float | None = None,
) -> Callable[[Loop], Loop]:
    """Registers a loop of which one thing is to be said that is no leak. Lines are marked as for a leak."""

    def register(loop: Loop) -> Loop:
        WARNINGS[loop.__name__] = Scene(
            name=loop.__name__,
            loop=loop,
            file=Path(inspect.getfile(loop)),
            steps=40,
            long_steps=200,
            source="optimizer",
            count=lambda n: n,
            lines=_marked_lines(loop),
            holder=holder,
            verdict=verdict,
            bytes_per_step=bytes_per_step,
            blocks_per_step=blocks_per_step,
        )
        return loop

    return register


def clean(
    *,
    steps: int = 60,
    long_steps: int = 240,
    source: Source = "optimizer",
    count: Callable[[int], int] = lambda n: n,
    needs: Needs = "nothing",
) -> Callable[[Loop], Loop]:
    """Registers a loop that does not leak, however its memory moves."""

    def register(loop: Loop) -> Loop:
        CLEAN[loop.__name__] = Scene(
            name=loop.__name__,
            loop=loop,
            file=Path(inspect.getfile(loop)),
            steps=steps,
            long_steps=long_steps,
            source=source,
            count=count,
            needs=needs,
        )
        return loop

    return register


def _marked_lines(loop: Loop) -> tuple[int, ...]:
    own, first = inspect.getsourcelines(loop)
    lines = [first + offset for offset, text in enumerate(own) if text.rstrip().endswith("# leaks")]
    everywhere = Path(inspect.getfile(loop)).read_text(encoding="utf-8").splitlines()
    lines += [
        number for number, text in enumerate(everywhere, 1) if text.endswith(f"# leaks in {loop.__name__}")
    ]
    if not lines:
        raise ValueError(f"no line of {loop.__name__} is marked with # leaks")
    return tuple(lines)
