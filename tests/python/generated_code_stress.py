"""For test_generated_code.py: thousands of functions made, run and dropped by four threads.

The collector runs all the while. Dead code objects leave their addresses, their strings and their tables to the next
ones. Whatever the hot path remembers of a code object must not be believed of another one at the same address.

Printed as JSON: how many functions ran, how many had a wrong place, and how many a memory without a
fingerprint would have got wrong: one that knows a code object by its address alone.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import threading
from typing import Any

import torch

import leakguard
from leakguard._native import core

SIZE = 64  # of the tensors, so that each has a block of its own


def blank_lines(number: int) -> str:
    return "\n" * (number % 7)


def moved_line(number: int) -> tuple[str, str, int, str]:
    """The same file and names; the line moves."""
    source = f"{blank_lines(number)}def f(torch):\n    return torch.empty({SIZE})\n"
    return source, "/generated/moved.py", 2 + number % 7, "f"


def other_file(number: int) -> tuple[str, str, int, str]:
    """The same text in ever new files, whose names are of one length."""
    return f"def f(torch):\n    return torch.empty({SIZE})\n", f"/generated/f{number:06}.py", 2, "f"


def other_name(number: int) -> tuple[str, str, int, str]:
    """The same text under ever new qualified names of one length."""
    name = f"f{number:06}"
    source = (
        f"def {name}():\n    def f(torch):\n        return torch.empty({SIZE})\n    return f\nf = {name}()\n"
    )
    return source, "/generated/names.py", 3, f"{name}.<locals>.f"


def inner_shift(number: int) -> tuple[str, str, int, str]:
    """A long function of constant size, in which one statement moves by a line or two."""
    before = "".join(f"    a{i} = {i}\n" for i in range(12))
    shift = number % 3
    source = (
        f"def f(torch):\n{before}" + "\n" * shift + f"    x = torch.empty({SIZE})\n" + "\n" * (2 - shift)
        + before + "    return x\n"
    )  # fmt: skip
    return source, "/generated/shift.py", 14 + shift, "f"


def nobodys_file(number: int) -> tuple[str, str, int, str] | None:
    """Code without a file, at addresses where the user's code lay: the line is the caller's."""
    return f"def f(torch):\n    return torch.empty({SIZE})\n", f"<generated {number:06}>", 0, "f"


KINDS = (moved_line, other_file, other_name, inner_shift, nobodys_file)


class Worker(threading.Thread):
    def __init__(self, index: int, functions: int) -> None:
        super().__init__()
        self.random = random.Random(index)
        self.index = index
        self.functions = functions
        self.wrong: list[str] = []
        self.by_address: dict[int, tuple[str, int, str]] = {}
        self.fooled = 0  # what a memory by address alone would have got wrong

    def run(self) -> None:
        for count in range(self.functions):
            self.one(self.index * self.functions + count)

    def one(self, number: int) -> None:
        kind = self.random.choice(KINDS)
        source, file, line, name = kind(number)
        namespace: dict[str, Any] = {}
        exec(compile(source, file, "exec"), namespace)
        function = namespace["f"]
        tensor = call(function)
        expected = (file, line, name) if line else CALLER
        seen = self.place_of(tensor.untyped_storage().data_ptr())
        if seen != expected:
            self.wrong.append(f"{kind.__name__}: {seen} for {expected}")
        address = id(function.__code__)
        self.fooled += self.by_address.get(address, expected) != expected
        self.by_address[address] = expected

    def place_of(self, address: int) -> tuple[str, int, str]:
        for row in core.blocks():
            if row[0] == address:
                file, name, line, *_ = core.line(core.group(row[4])[2])
                return file, line, name
        return "", 0, ""


def call(function: Any) -> torch.Tensor:
    return function(torch)


CALLER = (__file__, call.__code__.co_firstlineno + 1, "call")


def main(functions: int) -> None:
    torch.set_num_threads(1)
    done = threading.Event()

    def collect() -> None:
        while not done.wait(0.01):
            gc.collect(0)
            sys._current_frames()

    sys.setswitchinterval(1e-4)
    guard = leakguard.watch(on_exit="never")
    collector = threading.Thread(target=collect)
    workers = [Worker(index, functions // 4) for index in range(4)]
    for thread in (collector, *workers):
        thread.start()
    for worker in workers:
        worker.join()
    done.set()
    collector.join()
    lost = core.lost()
    guard.stop()
    wrong = [text for worker in workers for text in worker.wrong]
    print(
        json.dumps(
            {
                "functions": sum(worker.functions for worker in workers),
                "wrong": len(wrong),
                "examples": wrong[:10],
                "fooled": sum(worker.fooled for worker in workers),
                "lost": lost,
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
