"""What `leakguard bisect` prints while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from leakguard.bisection import Bisection, Trial, Watcher
from leakguard.cli.target import Target
from leakguard.render.bisection_text import COLUMNS, headline, names, row, verdict

__all__ = ["Table"]


class Table(Watcher):
    """Prints a row for each trial when it has ended; in a terminal, below them a bar: how many parts are cleared."""

    def __init__(self, target: Target, method: str) -> None:
        self._console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("trial 1", total=None, left="all on")
        self._names: tuple[str, ...] = ()
        self._count = 0
        self._headline = headline(target.name, method)

    def __enter__(self) -> Table:
        self._print(self._headline)
        self._print(COLUMNS)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begins(self, off: frozenset[str], suspects: int, components: int) -> None:
        """The bar: how many are suspected still, and what the next trial does without."""
        if not components:
            return
        left = f"{suspects} of {components} suspected; off: {names(off, self._names)}"
        self._bar.update(
            self._task,
            description=f"trial {self._count + 1}",
            total=components,
            completed=components - suspects,
            left=left,
        )

    def ended(self, trial: Trial, components: Sequence[str]) -> None:
        """A row of the table."""
        self._count += 1
        self._names = tuple(components)
        self._print(row(self._count, trial, components))

    def finish(self, result: Bisection) -> None:
        """The verdict, below the table."""
        self._bar.stop()
        self._print("")
        for line in verdict(result, self._console.width):
            self._console.print(line)

    def interrupted(self) -> None:
        """That a signal has ended it."""
        self._bar.stop()
        self._print(f"stopped in trial {self._count + 1}: it has been ended, and nothing is decided")

    def _print(self, text: str) -> None:
        self._console.print(text)
        self._console.file.flush()
