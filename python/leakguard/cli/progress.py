"""`leakguard run --progress`: a line on stderr that tells how the watched script fares."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import TextIO

TERMINAL_SECONDS, LOG_SECONDS = 1.0, 10.0
REWRITE = "\r\x1b[2K"


class Progress:
    """Prints how long the script has run, and what `words()` says of it when there is such a function, from a
    thread of its own: in a terminal each line over the one before, elsewhere below it."""

    def __init__(self, words: Callable[[], str] | None, file: TextIO) -> None:
        self._words = words
        self._began = time.monotonic()
        self._file = file
        self._rewrites = file.isatty() and os.environ.get("TERM") != "dumb"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leakguard progress", daemon=True)

    def start(self) -> None:
        """Begins to print."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it, and takes the line out of a terminal."""
        self._ended.set()
        self._thread.join(timeout=1.0)
        if self._rewrites:
            self._print(REWRITE)

    def _run(self) -> None:
        while not self._ended.wait(TERMINAL_SECONDS if self._rewrites else LOG_SECONDS):
            with contextlib.suppress(Exception):  # telling how it goes must not stop it from going
                line = f"leakguard: {time.monotonic() - self._began:.0f} s"
                if self._words is not None:
                    line = f"{line}, {self._words()}"
                self._print(f"{REWRITE}{line}" if self._rewrites else f"{line}\n")

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # closed, or entered by a signal
            self._file.write(text)
            self._file.flush()
