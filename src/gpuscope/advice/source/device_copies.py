"""Copies to the device in the user's step, and where the host tensors come from, in its source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from gpuscope.advice.source.edits import lines_of, replace_node, source_of
from gpuscope.advice.source.places import function_named, step_of
from gpuscope.advice.types import Edit

__all__ = ["device_copies", "non_blocking", "pinned"]

_MOVING = frozenset({"to", "cuda", "copy_"})
_KEEPING = frozenset({"float", "half", "bfloat16", "double", "long", "int", "bool"})
"""Dtypes' short names: `.to(torch.float)` moves nothing."""


def device_copies(text: str, function: str) -> tuple[ast.Call, ...] | None:
    """Calls `x.cuda()` and `x.to("cuda")` in the step.

    Args:
        text: of the user's file.
        function: that builds the workload.

    Returns:
        None where there is none, or where a call may be another copy, so that they are not all.
    """
    step = step_of(text, function)
    found = []
    for node in ast.walk(step) if step is not None else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in _MOVING or _casts(node):
            continue
        if not _copies(node) or node.lineno != node.end_lineno:
            return None
        found.append(node)
    return tuple(found) or None


def _copies(call: ast.Call) -> bool:
    """`x.cuda()`, `x.cuda(0)`, `x.to("cuda")`, with or without `non_blocking`."""
    assert isinstance(call.func, ast.Attribute)
    others = [k for k in call.keywords if k.arg != "non_blocking"]
    if call.func.attr == "cuda":
        return not others and len(call.args) <= 1
    return call.func.attr == "to" and not others and len(call.args) == 1 and _cuda(call.args[0])


def _cuda(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and str(node.value).startswith("cuda")


def _casts(call: ast.Call) -> bool:
    """`x.to(torch.bfloat16)`: to another dtype only."""
    only = [*call.args, *(k.value for k in call.keywords if k.arg == "dtype")]
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "to" or len(only) != 1:
        return False
    name = only[0].attr if isinstance(only[0], ast.Attribute) else ""
    return name.startswith(("float", "bfloat", "int", "uint", "complex")) or name in _KEEPING


def non_blocking(file: str, text: str, calls: Iterable[ast.Call]) -> tuple[Edit, ...]:
    """`non_blocking=True` in each of these calls that does not say it yet."""

    def said(line: str, call: ast.Call) -> str:
        end = _characters(line, call.end_col_offset) - 1
        comma = ", " if call.args or call.keywords else ""
        return f"{line[:end]}{comma}non_blocking=True{line[end:]}"

    return _line_by_line(
        file, text, [c for c in calls if all(k.arg != "non_blocking" for k in c.keywords)], said
    )


def _line_by_line(
    file: str, text: str, calls: Iterable[ast.Call], changed: Callable[[str, ast.Call], str]
) -> tuple[Edit, ...]:
    """One edit a line, from its last call to its first."""
    lines, made = lines_of(text), dict[int, str]()
    for call in sorted(calls, key=lambda c: (c.lineno, -(c.end_col_offset or 0))):
        made[call.lineno] = changed(made.get(call.lineno, lines[call.lineno - 1]), call)
    return tuple(Edit(file, line, line, new) for line, new in made.items())


def _characters(line: str, byte_offset: int | None) -> int:
    """An offset in UTF-8 bytes, as `ast` gives it, in characters."""
    return len(line.encode()[: byte_offset or 0].decode(errors="ignore"))


def pinned(
    file: str, text: str, function: str, calls: Iterable[ast.Call], loaders: bool
) -> tuple[Edit, ...] | None:
    """`.pin_memory()` where the tensors that are copied are made.

    Args:
        file, text, function: see `device_copies`.
        calls: the copies.
        loaders: other tensors come from loaders, which pin by themselves.

    Returns:
        None where it is not certain which tensor a copy is of, or that it is on the host.
    """
    build = function_named(text, function)
    if build is None:
        return None
    made = _made(build)
    wanted: dict[str, ast.Assign] = {}
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        source = call.func.value
        if not isinstance(source, ast.Name):
            return None
        found = made.get(source.id, [])
        if len(found) == 1 and _makes_host_tensor(found[0].value):
            wanted[source.id] = found[0]
        elif not loaders:
            return None
    return tuple(
        replace_node(file, text, node.value, f"{source_of(text, node.value)}.pin_memory()")
        for node in wanted.values()
    )


def _made(build: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, list[ast.Assign]]:
    """Every assignment of one name below a function, by that name."""
    found: dict[str, list[ast.Assign]] = {}
    for node in ast.walk(build):
        targets = node.targets if isinstance(node, ast.Assign) else ()
        for target in targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(node, ast.Assign):
                    # A name among several is put down too, so that it is not taken for the one.
                    found.setdefault(name.id, []).append(node)
    return found


def _makes_host_tensor(value: ast.expr) -> bool:
    """`torch.randn(...)`, also followed by methods, and nothing of it on a device."""
    if any(isinstance(n, ast.Constant) and "cuda" in str(n.value) for n in ast.walk(value)):
        return False
    made = value
    while isinstance(made, ast.Call):
        if any(k.arg in ("device", "pin_memory") for k in made.keywords):
            return False
        if not isinstance(made.func, ast.Attribute) or made.func.attr in ("cuda", "pin_memory"):
            return False
        if isinstance(made.func.value, ast.Name):
            return made.func.value.id == "torch"
        made = made.func.value
    return False
