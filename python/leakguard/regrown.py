"""Whether a block that grows from step to step is the old one with more added: `kept = torch.cat([kept, new])`.

The allocator sees one block die and a larger one come, which is also what a batch looks like that is made larger by
plan. The source tells them apart: the line joins tensors, and what it makes goes back to a name that outlives the step
and that the line has read. No name of a variable decides anything.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache

from leakguard.report import Place

__all__ = ["is_regrown"]

JOINING = {
    "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "row_stack", "column_stack", "pad",
}  # fmt: skip
"""Functions whose result has all of their arguments in it."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Loop = ast.For | ast.AsyncFor | ast.While


def is_regrown(place: Place) -> bool:
    """Whether the line makes a larger tensor out of one that it made before. False when its source is not there."""
    if place.file is None or place.line is None or not _joins(place.expression):
        return False
    source = _Source.of(place.file)
    return source is not None and source.feeds_itself(place.line)


def _joins(expression: str | None) -> bool:
    try:
        tree = ast.parse((expression or "").strip(), mode="eval")
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Call) and _last_name(node.func) in JOINING for node in ast.walk(tree))


def _last_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


class _Source:
    """A parsed file, with the way up from each node."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    @staticmethod
    def of(file: str) -> _Source | None:
        return _parsed(file, "".join(linecache.getlines(file)))

    def feeds_itself(self, line: int) -> bool:
        """Whether the statement at the line is in a circle: what it makes is what it will read in the next step."""
        statement = self._statement_at(line)
        if isinstance(statement, ast.Return):
            function = self._function_of(statement)
            if function is None or isinstance(function, ast.Lambda):
                return False
            return any(
                any(_last_name(call.func) == function.name for call in _calls(node.value))
                and self._circle(node)
                for node in ast.walk(self._tree)
                if isinstance(node, ast.Assign)
            )
        return isinstance(statement, ast.Assign) and self._circle(statement)

    def _circle(self, statement: ast.Assign) -> bool:
        made, read = _targets(statement), _bases(statement.value)
        if any(base in read and self._outlives(base, target, statement) for base, target in made.items()):
            return True
        function = self._function_of(statement)
        return any(
            base in read and made.keys() & _bases(other.value) and self._outlives(base, target, other)
            for other in ast.walk(function or self._tree)
            if isinstance(other, ast.Assign) and other is not statement
            for base, target in _targets(other).items()
        )

    def _outlives(self, base: str, target: ast.expr, statement: ast.stmt) -> bool:
        """Whether what is bound there is still bound in the next step: it is part of an object, or a name that an
        outer function or the whole loop keeps."""
        if not isinstance(target, ast.Name):
            return True
        function = self._function_of(statement)
        scope = function or self._tree
        if any(
            isinstance(node, ast.Global | ast.Nonlocal) and base in node.names for node in ast.walk(scope)
        ):
            return True
        loop = self._outermost_loop(statement, function)
        if loop is None:
            return False
        bound = [
            node
            for node in ast.walk(loop)
            if isinstance(node, ast.Name) and node.id == base and isinstance(node.ctx, ast.Store)
        ]
        return all(node is target for node in bound)

    def _statement_at(self, line: int) -> ast.stmt | None:
        found = None
        for node in ast.walk(self._tree):
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
                found = node  # breadth first: the last is the innermost
        return found

    def _up(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self._parents:
            node = self._parents[node]
            yield node

    def _function_of(self, node: ast.AST) -> Function | None:
        return next((above for above in self._up(node) if isinstance(above, Function)), None)

    def _outermost_loop(self, node: ast.AST, function: Function | None) -> Loop | None:
        loop = None
        for above in self._up(node):
            if above is function:
                break
            if isinstance(above, Loop):
                loop = above
        return loop


@lru_cache(maxsize=16)
def _parsed(file: str, text: str) -> _Source | None:
    try:
        return _Source(ast.parse(text, file)) if text else None
    except SyntaxError:
        return None


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (child for child in ast.walk(node) if isinstance(child, ast.Call))


def _base(node: ast.expr) -> str | None:
    """`self.kept` of `self.kept[0]`; None for what is no name or attribute."""
    while isinstance(node, ast.Subscript | ast.Starred):
        node = node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _base(node.value)
        return f"{inner}.{node.attr}" if inner else None
    return None


def _bases(node: ast.AST) -> set[str]:
    return {base for child in ast.walk(node) if isinstance(child, ast.expr) and (base := _base(child))}


def _targets(statement: ast.Assign) -> dict[str, ast.expr]:
    targets: dict[str, ast.expr] = {}
    waiting = list(statement.targets)
    while waiting:
        target = waiting.pop()
        if isinstance(target, ast.Tuple | ast.List):
            waiting += target.elts
        elif base := _base(target):
            targets[base] = target
    return targets
