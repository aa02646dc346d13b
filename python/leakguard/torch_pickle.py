"""Pickles that are read and never executed: containers, strings and numbers come in, every other object is refused."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any, NoReturn

from leakguard.report_file import ReportError

__all__ = ["HOW_TO_MAKE", "read_pickle"]

HOW_TO_MAKE = 'Make one with: torch.cuda.memory._dump_snapshot("snapshot.pickle")'


def read_pickle(path: str | Path) -> Any:
    """What the pickle holds. Raises ReportError when it is damaged, or names an object that would have to be
    imported or called: nothing in it is."""
    collecting = gc.isenabled()
    gc.disable()  # a million new containers, none of them garbage
    try:
        with Path(path).open("rb") as file:
            return _PlainUnpickler(file).load()
    except ReportError as error:
        raise ReportError(f"{path} is refused: {error}. {HOW_TO_MAKE}") from error
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    # whatever a damaged pickle makes the unpickler stumble over
    except (pickle.UnpicklingError, EOFError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise ReportError(f"{path} is a damaged pickle ({error}). {HOW_TO_MAKE}") from error
    except (MemoryError, OverflowError, RecursionError) as error:
        raise ReportError(f"{path} asks for more memory than there is. {HOW_TO_MAKE}") from error
    finally:
        if collecting:
            gc.enable()


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise ReportError(f"it holds {module}.{name}, and a memory snapshot is made of plain values only")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise ReportError("it points to objects outside the file")
