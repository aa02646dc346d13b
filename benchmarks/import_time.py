"""How long `import leakguard` takes in a fresh interpreter that has imported nothing else."""

from __future__ import annotations

import time

import measure


def main() -> None:
    began = time.perf_counter()
    import leakguard  # noqa: F401

    measure.emit({"import_ms": 1e3 * (time.perf_counter() - began)})


if __name__ == "__main__":
    main()
