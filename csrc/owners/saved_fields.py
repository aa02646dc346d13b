"""Build step: which saved tensors each generated autograd node has.

    saved_fields.py HEADER OUTPUT

Reads torch/csrc/autograd/generated/Functions.h of the installed torch and writes one initializer a type:

    {typeid(gen::ExpBackward0).name(), {{offsetof(gen::ExpBackward0, result_), false, "result"}}},

The compiler resolves the names and offsets, so a table of another torch does not build.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_NODE = re.compile(r"struct TORCH_API (\w+) : public \w+ \{\n#endif\n(.*?)\n\};", re.DOTALL)
_FIELD = re.compile(r"^  (SavedVariable|std::vector<SavedVariable>) (\w+);", re.MULTILINE)


def table(header: str) -> list[str]:
    """One initializer for every node type of the header that saves tensors."""
    rows = []
    for node, body in _NODE.findall(header):
        fields = []
        for kind, field in _FIELD.findall(body):
            is_list = "true" if kind.startswith("std::vector") else "false"
            fields.append(f'{{offsetof(gen::{node}, {field}), {is_list}, "{field.rstrip("_")}"}}')
        if fields:
            rows.append(f"{{typeid(gen::{node}).name(), {{{', '.join(fields)}}}}},")
    return rows


def main(header: str, output: str) -> None:
    """Writes the table of `header` to `output`; exits with a message when it finds none."""
    rows = table(Path(header).read_text(encoding="utf-8"))
    if not rows:
        raise SystemExit(f"{header}: no autograd node with saved tensors was recognised")
    Path(output).write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
