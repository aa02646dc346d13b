"""Between leakguard and the program: a failure of ours is counted, said once, and never reaches the training loop."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["Protection"]


class Protection:
    """What one Guard's own work has cost and what of it has failed: `seconds` in guarded functions, and `failures` as
    sentences."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.seconds = 0.0

    def clear(self) -> None:
        """As if nothing had been done yet."""
        self.failures.clear()
        self.seconds = 0.0

    def guarded(self, function: Callable[..., None]) -> Callable[..., None]:
        """`function` for torch to call: what it raises ends here and is counted, and its time is
        leakguard's."""

        @functools.wraps(function)
        def safe(*args: Any, **kwargs: Any) -> None:
            began = time.perf_counter()
            try:
                function(*args, **kwargs)
            except Exception as error:
                self.failed(error)
            finally:
                self.seconds += time.perf_counter() - began

        return safe

    def failed(self, error: Exception) -> None:
        """Counts an internal failure; the first is said on stderr, and training goes on."""
        self.failures.append(f"{type(error).__name__}: {error}")
        if len(self.failures) == 1:
            self.tell(f"an internal failure, training goes on: {self.failures[0]}")

    def spent(self) -> tuple[list[str], float]:
        """The failures and the seconds so far."""
        return self.failures, self.seconds

    def tell(self, sentence: str) -> None:
        """One line on stderr, where there is one."""
        if sys.stderr is not None:
            print(f"leakguard: {sentence}", file=sys.stderr)
