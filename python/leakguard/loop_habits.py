"""What a training loop does with its loss besides the backward pass, read from its source: it prints it in every step,
or adds it to a total with the graph on it.

Only what surely happens in each step counts: statements of the loop, or of the function that is called for each step,
that stand under no condition and in no other loop.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

__all__ = ["CodeLine", "Habits", "calling_line", "habits_at"]

FOREIGN = ("torch", "leakguard")

WITHOUT_GRAPH = {"item", "detach", "tolist", "cpu", "numpy", "data"}
"""What a loss is asked for by who wants its number; `cpu` keeps the graph, and is left alone all the same."""

GRADIENTS_OFF = {"no_grad", "inference_mode", "set_grad_enabled"}

Scope = ast.For | ast.AsyncFor | ast.While | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of the user's, and what stands there."""

    file: str
    line: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Habits:
    """The names are those of the source; None where the loop has no such habit."""

    loss: str
    printed: CodeLine | None = None
    summed: CodeLine | None = None
    total: str = ""


def calling_line() -> CodeLine | None:
    """The line that has called torch, and through it us; None when it is a library's. Keeps no frame."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in FOREIGN:
        frame = frame.f_back
    if frame is None or "site-packages" in frame.f_code.co_filename:
        return None
    return CodeLine(frame.f_code.co_filename, frame.f_lineno)


def habits_at(place: CodeLine) -> Habits | None:
    """The habits of the loop with the backward pass at that line. None when its source is not there, or does not show
    whose backward pass it is."""
    try:
        tree = ast.parse("".join(linecache.getlines(place.file)))
    except (SyntaxError, ValueError):
        return None
    found = _find(tree, place.line)
    if found is None:
        return None
    scope, loss = found
    statements = list(_in_each_step(scope.body))
    printed = next((one for one in statements if _prints(one, loss)), None)
    summed = next(((one, total) for one in statements if (total := _adds_to(one, loss))), None)
    if summed is not None and (_loses_graph(statements, loss) or _is_used_for_gradients(tree, summed[1])):
        summed = None
    return Habits(
        loss,
        None if printed is None else _line(place.file, printed),
        None if summed is None else _line(place.file, summed[0]),
        "" if summed is None else summed[1],
    )


def _find(tree: ast.Module, line: int) -> tuple[Scope, str] | None:
    """What is gone through in each step, and the name of its loss."""
    scope: Scope | None = None
    loss = None
    waiting: list[tuple[ast.AST, Scope | None]] = [(tree, None)]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, ast.stmt) and not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            scope, loss = around, _loss_of(node.value)
        inner = node if isinstance(node, Scope) else around
        waiting += [(child, inner) for child in ast.iter_child_nodes(node)]
    return (scope, loss) if scope is not None and loss else None


def _loss_of(call: ast.Call) -> str | None:
    """`loss` of `loss.backward()` and `scaler.scale(loss).backward()`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
        return None
    value = call.func.value
    if isinstance(value, ast.Call) and len(value.args) == 1:
        value = value.args[0]
    return value.id if isinstance(value, ast.Name) else None


def _in_each_step(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.With | ast.AsyncWith):
            opened = {name for item in statement.items for name in _names(item.context_expr)}
            if not opened & GRADIENTS_OFF:
                yield from _in_each_step(statement.body)
        elif isinstance(statement, ast.Try):
            yield from _in_each_step(statement.body)
        elif isinstance(statement, ast.Continue | ast.Break | ast.Return):
            return
        else:
            yield statement
            if isinstance(statement, ast.If) and _leaves(
                statement
            ):  # what follows is not reached in each step
                return


def _leaves(statement: ast.If) -> bool:
    return any(isinstance(node, ast.Continue | ast.Break | ast.Return) for node in ast.walk(statement))


def _prints(statement: ast.stmt, loss: str) -> bool:
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    call = statement.value
    if not (isinstance(call.func, ast.Name) and call.func.id == "print"):
        return False
    return any(_is_number_of(argument, loss) for argument in _shown(call.args))


def _shown(arguments: Sequence[ast.expr]) -> Iterator[ast.expr]:
    for argument in arguments:
        if isinstance(argument, ast.JoinedStr):
            yield from (part.value for part in argument.values if isinstance(part, ast.FormattedValue))
        else:
            yield argument


def _is_number_of(value: ast.expr, loss: str) -> bool:
    """`loss`, `loss.item()`, `loss.detach().item()`, `float(loss)`; not `loss.shape` or `len(loss)`."""
    while isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and value.func.attr in WITHOUT_GRAPH:
            value = value.func.value
        elif isinstance(value.func, ast.Name) and value.func.id in ("float", "str", "repr") and value.args:
            value = value.args[0]
        else:
            return False
    return isinstance(value, ast.Name) and value.id == loss


def _adds_to(statement: ast.stmt, loss: str) -> str | None:
    """The total that the loss, as it is, is added to."""
    target: ast.expr
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        target, value = statement.target, statement.value
    elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        target, value = statement.targets[0], statement.value.right
        if not isinstance(statement.value.op, ast.Add):
            return None
        if ast.unparse(statement.value.left) != ast.unparse(target):
            return None
    else:
        return None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        value = value.left
    added = isinstance(value, ast.Name) and value.id == loss
    total = ast.unparse(target)
    return total if added and isinstance(target, ast.Name | ast.Attribute) and total != loss else None


def _loses_graph(statements: Sequence[ast.stmt], loss: str) -> bool:
    """Whether the loss is made a number, or loses its graph, on the way."""
    return any(
        isinstance(one, ast.Assign)
        and loss in {target.id for target in one.targets if isinstance(target, ast.Name)}
        and _names(one.value) & (WITHOUT_GRAPH | {"float"})
        for one in statements
    )


def _is_used_for_gradients(tree: ast.Module, total: str) -> bool:
    """Whether the total has a backward pass of its own: then it needs the graph."""
    return any(
        isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in ("backward", "grad"))
            or (isinstance(node.func, ast.Name) and node.func.id == "grad")
        )
        and total in ast.unparse(node)
        for node in ast.walk(tree)
    )


def _names(node: ast.AST) -> set[str]:
    found = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    return found | {child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute)}


def _line(file: str, statement: ast.stmt) -> CodeLine:
    return CodeLine(file, statement.lineno, ast.unparse(statement))
