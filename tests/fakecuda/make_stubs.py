"""Writes C stubs for what a real library exports and the fake does not define.

A drop-in must export every name of the library it replaces, or a client that binds eagerly
fails to load. The names come from the installed library; the driver is not installed, so its
names come from the one library of torch that links it.

    make_stubs.py REAL_LIBRARY|libcaffe2_nvrtc.so HANDLER OUTPUT.c OBJECT...

HANDLER is the function each stub calls: `fakecuda_unimplemented` with its name, any other with
its first argument and its name.
"""

from __future__ import annotations

import re
import subprocess
import sys


def symbols(path: str, *options: str) -> set[str]:
    text = subprocess.run(["nm", *options, path], check=True, capture_output=True, text=True)
    fields = [line.split() for line in text.stdout.splitlines()]
    return {f[-1].split("@")[0] for f in fields if len(f) >= 2 and f[-2] in "TWiVU"}


def wanted(library: str) -> set[str]:
    if not library.endswith("libcaffe2_nvrtc.so"):
        return symbols(library, "-D", "--defined-only")
    return {name for name in symbols(library, "-D", "--undefined-only") if re.match("cu[A-Z]", name)}


def main(library: str, handler: str, output: str, *objects: str) -> None:
    written: set[str] = set().union(*(symbols(o, "--defined-only") for o in objects))
    missing = sorted(wanted(library) - written)
    takes_first = handler != "fakecuda_unimplemented"
    parameter, argument = ("const void* first", "first, ") if takes_first else ("void", "")
    with open(output, "w") as out:
        out.write(f"int {handler}({'const void*, ' if takes_first else ''}const char*);\n")
        for name in missing:
            out.write(
                f'__attribute__((visibility("default"))) '
                f'int {name}({parameter}) {{ return {handler}({argument}"{name}"); }}\n'
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
