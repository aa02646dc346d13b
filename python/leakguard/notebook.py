"""Watching in a notebook: `%load_ext leakguard`, then `%%leakguard` at the head of a cell; `Guard.show_live()`.

A cell is watched from its first line to its last and shows one display, that is brought up to date in place while the
cell trains and ends with the verdict. Imports IPython only when IPython asks for it.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from leakguard.guard import Guard, current, watch
from leakguard.notebook_cells import shell
from leakguard.report import Report
from leakguard.shown import as_printed
from leakguard.step_table import StepTable

__all__ = ["load_ipython_extension", "show_live", "unload_ipython_extension"]

PERIOD = 0.5
"""Seconds between two updates of a table, at least."""

SHARE = 0.01
"""Part of the time that updates may take."""

MAGIC = "%%leakguard"


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext leakguard`."""
    ipython.register_magic_function(watch_line, "line", "leakguard")
    ipython.register_magic_function(watch_cell, "cell", "leakguard")
    if watch_in_place not in ipython.input_transformers_cleanup:
        ipython.input_transformers_cleanup.append(watch_in_place)


def unload_ipython_extension(ipython: Any) -> None:
    """`%unload_ext leakguard`."""
    for kind in ("line", "cell"):
        ipython.magics_manager.magics[kind].pop("leakguard", None)
    if watch_in_place in ipython.input_transformers_cleanup:
        ipython.input_transformers_cleanup.remove(watch_in_place)


def watch_in_place(lines: list[str]) -> list[str]:
    """A cell that begins with `%%leakguard` stays a cell like any other, with a call in its first line: its lines
    keep their numbers, its errors and its last value go where they always go."""
    if not lines or lines[0].split()[:1] != [MAGIC]:
        return lines
    body = next((line for line in lines[1:] if line.strip()), "")
    if body.startswith("%%"):  # the next magic takes the rest of the cell, and must come first in it
        return lines
    arguments = lines[0].strip().removeprefix(MAGIC).strip()
    return [f"get_ipython().run_line_magic('leakguard', {arguments!r})\n", *lines[1:]]


watch_in_place.has_side_effects = True  # type: ignore[attr-defined]  # not applied while a cell is being typed


def watch_line(line: str) -> None:
    """Watches the rest of this cell: a table of its training steps while it runs, the verdict when it ends.

    `%leakguard NAME` leaves the Guard in the variable NAME; as `%%leakguard` it stands in the cell's first line. Where
    a Guard watches already, it is that one's verdict, and its steps in this cell.
    """
    name = line.strip()
    if name and not name.isidentifier():
        problem: Exception = importlib.import_module("IPython.core.error").UsageError(
            f"leakguard takes one name, for its Guard, and got {name!r}"
        )
        raise problem
    present = current()
    guard = present or watch(on_exit="never")
    running = shell()
    if name and running is not None:
        running.push({name: guard})
    before = guard.step_count

    def table() -> StepTable:
        whole = guard.table()
        return StepTable(steps=whole.steps, rows=tuple(row for row in whole.rows if row.last_step > before))

    def result() -> CellResult:
        if present is None:
            guard.stop()
        return CellResult(guard.report(), table())

    show(guard, table, result)


def watch_cell(line: str, cell: str) -> None:
    """Watches this cell: a table of its training steps while it runs, the verdict when it ends.

    `%%leakguard NAME` leaves the Guard in the variable NAME. Where a Guard watches already, it is that one's verdict,
    and its steps in this cell.
    """
    watch_line(line)
    running = shell()
    if running is not None:
        running.run_cell(cell)


def show_live(guard: Guard) -> None:
    """As `Guard.show_live`."""
    show(guard, guard.table, guard.table)


def show(guard: Guard, table: Callable[[], StepTable], result: Callable[[], object]) -> None:
    """One display in the cell that runs: `table` while it trains, `result` when it ends."""
    display = Display()
    display.update(table())
    unfollow = guard.follow(Sparingly(lambda: display.update(table())))

    def finish() -> None:
        unfollow()
        display.end(result())

    at_end_of_cell(finish)


class CellResult:
    """What a watched cell shows in the end: the verdict, then its steps."""

    def __init__(self, report: Report, table: StepTable) -> None:
        self.report = report
        self.table = table

    def _repr_html_(self) -> str:
        return f"{self.report._repr_html_()}\n{self.table._repr_html_()}"

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        return f"{self.report}\n\n{self.table}"


class Display:
    """One place in the output of a cell. In a terminal, where nothing can be shown in place, only the end is shown."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._in_place = getattr(shell(), "kernel", None) is not None

    def update(self, value: object) -> None:
        """Shows `value` in place of what was shown before."""
        if self._handle is not None:
            self._handle.update(value)
        elif self._in_place:
            self._handle = self._begin(value)

    def end(self, value: object) -> None:
        """As `update`, for the last time."""
        if self._handle is not None:
            self._handle.update(value)
        else:
            self._begin(value)

    def _begin(self, value: object) -> Any:
        return importlib.import_module("IPython.display").display(value, display_id=True)


class Sparingly:
    """Calls a function at most every PERIOD, and less often where that would take more than SHARE of the time."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._next = 0.0

    def __call__(self) -> None:
        now = time.perf_counter()
        if now >= self._next:
            self._function()
            cost = time.perf_counter() - now
            self._next = now + max(PERIOD, cost / SHARE)


def at_end_of_cell(finish: Callable[[], None]) -> None:
    """Calls `finish` when the cell that runs has ended, also by an error. Cells that it runs itself do not count."""
    running = shell()
    if running is None:
        raise RuntimeError("no notebook cell is running: this needs IPython")
    inside = 0

    def entered(*_: object) -> None:
        nonlocal inside
        inside += 1

    def left(*_: object) -> None:
        nonlocal inside
        inside -= 1
        if inside < 0:
            running.events.unregister("pre_run_cell", entered)
            running.events.unregister("post_run_cell", left)
            finish()

    running.events.register("pre_run_cell", entered)
    running.events.register("post_run_cell", left)
