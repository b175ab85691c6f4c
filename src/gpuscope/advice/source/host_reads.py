"""Reads in a step that let the host wait for the device, and what can stand in their place.

A read that only leaves the step (returned, appended, summed) can stay a tensor; one that is only
looked at (printed, logged) can be one step late; one that decides what runs next must wait.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpuscope.advice.source.edits import delete_statement, replace_node, source_of
from gpuscope.advice.source.places import Function
from gpuscope.advice.types import Edit

__all__ = ["HostRead", "host_reads", "read_edits"]


_LATE = "from gpuscope.runtime import late"


@dataclass(frozen=True, slots=True)
class HostRead:
    """One read.

    Attributes:
        line: where.
        use: "tensor": it can stay a tensor; "late": it can be one step late; "nothing": a bare
            synchronisation, which can go; "decides": it steers what runs next; "timed": it is
            there for a clock; "unknown": it goes somewhere that cannot be followed.
        text: of the read, for the reader.
    """

    line: int
    use: Literal["tensor", "late", "nothing", "decides", "timed", "unknown"]
    text: str

    @property
    def removable(self) -> bool:
        """Whether the wait can go."""
        return self.use in ("tensor", "late", "nothing")


def host_reads(function: Function) -> tuple[HostRead, ...]:
    """The reads of a step, in order."""
    return tuple(read for read, _ in _found(function))


def read_edits(file: str, text: str, function: Function) -> tuple[Edit, ...]:
    """The edits that take the waits out of a step where that is safe.

    Args:
        file: its path.
        text: what it holds.
        function: the step.
    """
    edits: list[Edit] = []
    for read, node in _found(function):
        edit: Edit | None = None
        if read.use == "nothing":
            edit = delete_statement(file, text, read.line)
        elif read.use == "tensor":
            edit = replace_node(file, text, node, _kept(text, _tensor(node)))
        elif read.use == "late":
            new = f"late({source_of(text, _tensor(node))})"
            edit = replace_node(file, text, node, new, (_LATE,))
        if edit and all(edit.first > e.last or e.first > edit.last for e in edits):
            edits.append(edit)
    return tuple(edits)


def _kept(text: str, tensor: ast.expr) -> str:
    """A copy on the device: what it is a copy of may be overwritten by the next step."""
    given = source_of(text, tensor)
    if not isinstance(tensor, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        given = f"({given})"
    return given.removesuffix(".detach()") + ".detach().clone()"


def _tensor(node: ast.expr) -> ast.expr:
    """The tensor of `x.item()`, `float(x)`, or of a bare `x` that is printed."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value
    if isinstance(node, ast.Call) and node.args:
        return node.args[0]
    return node


# -- finding --------------------------------------------------------------------------------------


def _found(function: Function) -> Iterator[tuple[HostRead, ast.expr]]:
    above = {id(child): node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    tensors = _backward_on(function)
    timed = _reads_a_clock(function)
    places = [n for n in ast.walk(function) if isinstance(n, (ast.Call, ast.Name))]
    for node in sorted(places, key=lambda n: (n.lineno, n.col_offset)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("cuda.synchronize"):
            bare = isinstance(above[id(node)], ast.Expr)
            use = "timed" if timed else "nothing" if bare else "unknown"
            yield HostRead(node.lineno, use, ast.unparse(node)), node  # type: ignore[arg-type]
        elif _is_read(node, tensors) or _is_printed(node, above, tensors):
            yield HostRead(node.lineno, _use(node, above, function), ast.unparse(node)), node


def _backward_on(function: Function) -> set[str]:
    """Texts of what `.backward()` is called on: certainly tensors."""
    return {
        ast.unparse(n.func.value)
        for n in ast.walk(function)
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr == "backward"
    }


def _reads_a_clock(function: Function) -> bool:
    clocks = {"time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "elapsed_time"}
    return any(isinstance(n, ast.Call) and _name(n.func) in clocks for n in ast.walk(function))


def _is_read(node: ast.expr, tensors: set[str]) -> bool:
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr == "item" and not node.args
    return (
        _name(node.func) == "float"
        and len(node.args) == 1
        and (ast.unparse(node.args[0]) in tensors)
    )


def _is_printed(node: ast.expr, above: dict[int, ast.AST], tensors: set[str]) -> bool:
    """A loss itself given to `print`, or into its text."""
    if not isinstance(node, ast.Name) or node.id not in tensors:
        return False
    parent = above[id(node)]
    if isinstance(parent, ast.FormattedValue):
        return True
    return isinstance(parent, ast.Call) and _name(parent.func) == "print" and node in parent.args


def _use(
    node: ast.AST, above: dict[int, ast.AST], function: Function, depth: int = 0
) -> Literal["tensor", "late", "decides", "unknown"]:
    """What becomes of a read's value."""
    formatted = False
    while True:
        child, node = node, above[id(node)]
        if isinstance(node, (ast.Tuple, ast.List, ast.BinOp, ast.Dict, ast.keyword)):
            continue
        if isinstance(node, (ast.FormattedValue, ast.JoinedStr)):
            formatted = True
            continue
        if isinstance(
            node, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.If, ast.While, ast.IfExp, ast.Assert)
        ):
            return "decides"
        if isinstance(node, ast.Return):
            return "late" if formatted else "tensor"
        if isinstance(node, ast.AugAssign) and child is node.value and not formatted:
            return "tensor"
        if isinstance(node, ast.Call) and isinstance(above[id(node)], ast.Expr):
            if child is node.func:
                return "unknown"
            return "tensor" if _name(node.func) == "append" and not formatted else _looks(node)
        if isinstance(node, ast.Call) and _name(node.func) in ("round", "str", "format", "dict"):
            formatted = True
            continue
        if isinstance(node, ast.Assign) and not formatted:
            return _named_use(node, above, function, depth)
        return "unknown"


def _looks(call: ast.Call) -> Literal["late", "unknown"]:
    """Whether a call, made for its effect, only shows a value."""
    return "late" if _name(call.func) in _SHOWING else "unknown"


_SHOWING = frozenset(
    {
        "print",
        "info",
        "debug",
        "warning",
        "log",
        "add_scalar",
        "add_scalars",
        "write",
        "set_postfix",
        "set_description",
        "set_postfix_str",
        "log_metric",
        "log_metrics",
    }
)


def _named_use(
    node: ast.Assign, above: dict[int, ast.AST], function: Function, depth: int
) -> Literal["tensor", "late", "decides", "unknown"]:
    """What becomes of a name that a read is given."""
    target = node.targets[0]
    if len(node.targets) != 1 or not isinstance(target, ast.Name) or depth > 3:
        return "unknown"
    every = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == target.id]
    if sum(isinstance(n.ctx, ast.Store) for n in every) != 1 or _leaves(function, target.id):
        return "unknown"
    uses = {_use(n, above, function, depth + 1) for n in every if isinstance(n.ctx, ast.Load)}
    if "decides" in uses or "unknown" in uses:
        return "decides" if "decides" in uses else "unknown"
    return "late" if "late" in uses else "tensor"


def _leaves(function: Function, name: str) -> bool:
    """Whether a name belongs to somebody else too."""
    return any(
        isinstance(n, (ast.Nonlocal, ast.Global)) and name in n.names for n in ast.walk(function)
    )


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
