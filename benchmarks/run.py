"""Runs the benchmarks and prints one table: medians over processes, with their spread.

    python benchmarks/run.py [cuda] [--quick] [--processes N] [--write]

Every figure compares two states of one process, or of processes that differ in nothing else; absolute times
are there for scale. `--quick` is for trying a change: few rounds in one process. `--write` puts the table in
RESULTS.md beside this file. leakguard must be importable.

`cuda` measures the CUDA caching allocator's path, on a GPU or over the fake CUDA runtime, where launches cost
nothing and what is added looks dearest. It also needs the test module `_pairs`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
PROCESSES = 5
ONCE = ("floor_and_ceiling", "bench_pytest")  # counts, and rounds of their own


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure of a script. `limit` is the most it may be, in the same unit."""

    script: str
    figure: str
    text: str
    unit: str = ""
    digits: int = 1
    limit: float | None = None


ROWS = (
    Row("training_step", "mlp_percent", "**9-layer MLP, training step: CPU time added**", "%", limit=6),
    Row("training_step", "mlp_unwatched_ms", "the step unwatched", "ms", 2),
    Row("training_step", "mlp_births", "blocks it allocates", digits=0),
    Row(
        "training_step",
        "transformer_percent",
        "**6-layer transformer, training step: CPU time added**",
        "%",
        limit=6,
    ),
    Row("training_step", "transformer_unwatched_ms", "the step unwatched", "ms", 2),
    Row("training_step", "transformer_births", "blocks it allocates", digits=0),
    Row("single_allocation", "pair_unwatched_ns", "`torch.empty(256)` and its death, unwatched", "ns", 0),
    Row("single_allocation", "pair_added_ns", "**added, dies at once**", "ns", 0),
    Row("single_allocation", "held_added_ns", "**added, 500 alive**", "ns", 0),
    Row("single_allocation", "in_module_added_ns", "**added, inside a module's forward**", "ns", 0),
    Row("host_memory", "tables_1000", "**host memory for each live block, 1 000 alive**", "bytes", 0, 136),
    Row("host_memory", "tables_100000", "**100 000 alive**", "bytes", 0, 136),
    Row("host_memory", "tables_1000000", "**1 000 000 alive**", "bytes", 0, 136),
    Row("host_memory", "process_100000", "growth of the process, 100 000 alive", "bytes", 0),
    Row("host_memory", "process_1000000", "growth of the process, 1 000 000 alive", "bytes", 0),
    Row("many_events", "events", "events of the long run (1 000 call sites, 10 growing)", "million", 1),
    Row(
        "many_events", "grown_mib", "**resident memory after it, more than after 10 thousand**", "MiB", 1, 64
    ),
    Row("many_events", "table_mib", "all tables of leakguard after it", "MiB"),
    Row("many_events", "old_births_known", "of 100 blocks born before it, step and line known", digits=0),
    Row("many_events", "early_mark_us", "**step mark after 10 thousand events**", "us", 1, 10),
    Row("many_events", "late_mark_us", "**step mark after the long run**", "us", 1, 10),
    Row("many_events", "early_diff_us", "**diff of two steps after 10 thousand events**", "us", 1, 10),
    Row("many_events", "late_diff_us", "**diff of two steps after the long run**", "us", 1, 10),
    Row("heap_walk", "objects", "a heap of collectable objects", "million"),
    Row("heap_walk", "collect_ms", "one `gc.collect()` of it", "ms", 0),
    Row("heap_walk", "walk_ms", "**a walk for the holders of 100 tensors**", "ms", 0),
    Row("heap_walk", "walk_collections", "**in collections**", "", 2, 1.5),
    Row(
        "heap_walk",
        "objgraph_walks",
        "`objgraph.find_backref_chain` for the 100, by three of them",
        "walks",
        0,
    ),
    Row("heap_walk", "bytes_a_node", "**memory of a walk, for each object and frame**", "bytes", 0, 75),
    Row("heap_walk", "suspects_missed", "**tensors without a holder**", digits=0, limit=0),
    Row("floor_and_ceiling", "leaks", "leaks, of 4 B to 100 MiB, in six rhythms", digits=0),
    Row("floor_and_ceiling", "leaks_missed", "**of which missed**", digits=0, limit=0),
    Row("floor_and_ceiling", "leaking_steps_most", "leaking steps until found, at most", digits=0, limit=20),
    Row("floor_and_ceiling", "clean_loops", "clean loops of 200 steps", digits=0),
    Row("floor_and_ceiling", "clean_accused", "**of which called a leak**", digits=0, limit=0),
    Row("floor_and_ceiling", "clean_warned", "of which warned of", digits=0),
    Row("import_time", "import_ms", "**`import leakguard`**", "ms", 1, 50),
    Row("bench_pytest", "bare_us", "a trivial test, without the pytest plugin", "µs", 0),
    Row("bench_pytest", "loaded_added_us", "added by the plugin when nothing is asked of it", "µs", 0),
    Row("bench_pytest", "checking_added_us", "**added by `--leakguard`, of 1 000 tests**", "µs", 0, 500),
    Row("bench_pytest", "collections", "garbage collections that it asks for", digits=0, limit=0),
    Row("bench_pytest", "load_ms", "**loading the plugin**", "ms", 1, 20),
    Row("bench_pytest", "suite_tests", "clean tests under check, in one session", digits=0),
    Row("bench_pytest", "suite_failures", "**of which accused**", digits=0, limit=0),
)

HISTORY = "`_record_memory_history` instead"
CUDA_ROWS = (
    Row("cuda_steps", "pair_bare_ns", "C++ `allocate` and free, unwatched", "ns", 0),
    Row("cuda_steps", "pair_added_ns", "**added**", "ns", 0),
    Row("cuda_steps", "pair_history_ns", f"{HISTORY}: added", "ns", 0),
    Row("cuda_steps", "pair_share", "**leakguard's part of that**", "%", limit=40),
    Row("cuda_steps", "pair_residue_ns", "**left after `stop()`**", "ns", 0, 80),
    Row("cuda_steps", "held_added_ns", "**added, 1 000 alive**", "ns", 0),
    Row("cuda_steps", "transformer_bare_ms", "6-layer transformer, training step unwatched", "ms", 2),
    Row("cuda_steps", "transformer_births", "blocks it allocates", digits=0),
    Row("cuda_steps", "transformer_percent", "**CPU time added**", "%", limit=2.5),
    Row("cuda_steps", "transformer_ops_percent", '**added with `detail="ops"`**', "%"),
    Row("cuda_steps", "transformer_history_percent", f"{HISTORY}: added", "%"),
    Row("cuda_steps", "mlp_bare_ms", "9-layer MLP, training step unwatched", "ms", 2),
    Row("cuda_steps", "mlp_births", "blocks it allocates", digits=0),
    Row("cuda_steps", "mlp_percent", "**CPU time added**", "%", limit=5),
    Row("cuda_steps", "mlp_ops_percent", '**added with `detail="ops"`**', "%"),
    Row("cuda_steps", "mlp_history_percent", f"{HISTORY}: added", "%"),
    Row(
        "cuda_many", "million_bytes", "**host memory for each live block, 1 000 000 alive**", "bytes", 0, 136
    ),
    Row("cuda_many", "million_added_ns", "added to a pair of birth and death, 1 000 000 alive", "ns", 0),
    Row("cuda_many", "events", "events of the long run", "million", 1),
    Row("cuda_many", "grown_mib", "**resident memory after it, more than before**", "MiB", 1, 64),
    Row("cuda_many", "mark_us", "**step mark after it**", "us", 1, 10),
)


def figures_of(script: str, quick: bool) -> dict[str, float]:
    """The figures of one process. Its stderr is shown; a failure ends everything."""
    command = [sys.executable, str(HERE / f"{script}.py"), *(["--quick"] if quick else [])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def line_of(row: Row, values: list[float]) -> str:
    median = statistics.median(values)

    def number(value: float) -> str:
        return f"{value:,.{row.digits}f}".replace(",", " ")

    cells = [
        row.text,
        f"{number(median)} {row.unit}".rstrip(),
        f"{number(min(values))} … {number(max(values))}" if len(values) > 1 else "",
        "" if row.limit is None else f"{row.limit:g} {row.unit}",
        "" if row.limit is None else "yes" if median <= row.limit else "**no**",
    ]
    return "| " + " | ".join(cells) + " |"


def machine() -> str:
    """What the figures depend on, and nothing that names a machine."""
    import torch

    cpu = platform.machine()
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
                break
    return (
        f"{datetime.date.today().isoformat()} · {len(os.sched_getaffinity(0))} cores, {cpu} · "
        f"Python {platform.python_version()} · torch {torch.__version__}{device(torch)}"
    )


def device(torch: ModuleType) -> str:
    """The CUDA device, if there is one."""
    if not torch.cuda.is_available():
        return ""
    fake = "fakecuda" in os.environ.get("LD_PRELOAD", "")
    return " · fake CUDA runtime" if fake else f" · {torch.cuda.get_device_name()}"


def table(rows: tuple[Row, ...], quick: bool, processes: int) -> str:
    """Runs everything."""
    lines = ["| what | median | spread | limit | kept |", "|---|---:|---:|---:|---|"]
    for script in dict.fromkeys(row.script for row in rows):
        runs = []
        times = 1 if script in ONCE else processes
        for number in range(times):
            print(f"{script} {number + 1}/{times}", file=sys.stderr, flush=True)
            runs.append(figures_of(script, quick))
        lines += [
            line_of(row, [run[row.figure] for run in runs])
            for row in rows
            if row.script == script and row.figure in runs[0]
        ]
    several = f"medians of {processes} processes, with lowest and highest"
    how = ("one process" if processes == 1 else several) + (", few rounds" if quick else "")
    return "\n".join([f"{machine()} · {how}", "", *lines])


def write(suite: str, text: str) -> None:
    """Puts the table under its heading in RESULTS.md; what stands under others stays."""
    file = HERE / "RESULTS.md"
    headings = {"cpu": "## On the CPU", "cuda": "## CUDA"}
    parts = re.split(r"^(## .*)$", file.read_text(), flags=re.MULTILINE) if file.exists() else []
    sections = {title.strip(): body.strip() for title, body in zip(parts[1::2], parts[2::2], strict=True)}
    sections[headings[suite]] = text
    head = "# What leakguard costs\n\nWritten by `./dev bench --write` and `./dev bench cuda --write`."
    known = [f"{title}\n\n{text}" for title, text in sections.items()]
    file.write_text("\n\n".join([head, *known]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs leakguard's benchmarks.")
    parser.add_argument("suite", nargs="?", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--quick", action="store_true", help="one process, few rounds")
    parser.add_argument("--processes", type=int, metavar="N", help="how many processes each script runs in")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md")
    options = parser.parse_args()
    processes = options.processes or (1 if options.quick else PROCESSES)
    text = table(CUDA_ROWS if options.suite == "cuda" else ROWS, options.quick, processes)
    print(text)
    if options.write:
        write(options.suite, text)


if __name__ == "__main__":
    main()
