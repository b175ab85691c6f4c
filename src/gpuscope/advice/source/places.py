"""Places in the user's source: where the model stands ready, the step, its forward pass.

Found in the syntax tree, never by text patterns; None where the code has another form.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "Forward",
    "Function",
    "Placed",
    "forward_of",
    "function_named",
    "model_at",
    "same_function",
    "step_of",
]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an object stands ready under a name.

    Attributes:
        name: the variable ("model", "self.model").
        made: first line of the statement that makes it.
        line: first line of the last statement that finishes it (`model = model.to(device)`): what
            is to be done with the whole model goes after this one.
    """

    name: str
    made: int
    line: int


@dataclass(frozen=True, slots=True)
class Forward:
    """The statements of a forward pass and its loss.

    Attributes:
        first, last: first line of the first and last line of the last statement, all of one block;
            last < first where there is none.
        backward: first line of the statement with the backward pass; None in inference.
        joined: the backward pass is called on the forward pass's own expression
            (`model(x).loss.backward()`), which stands in that statement.
    """

    first: int
    last: int
    backward: int | None = None
    joined: bool = False


def function_named(text: str, name: str) -> Function | None:
    """The function of that name at the top level of a file."""
    return next(
        (n for n in ast.parse(text).body if isinstance(n, Function) and n.name == name), None
    )


def same_function(tree: ast.AST, function: Function) -> Function:
    """The function of a tree that is one of another tree of the same text."""
    return next(
        n
        for n in ast.walk(tree)
        if isinstance(n, Function) and (n.lineno, n.name) == (function.lineno, function.name)
    )


def step_of(text: str, function: str) -> Function | None:
    """The function inside of a `build` function that it returns as its step."""
    build = function_named(text, function)
    if build is None:
        return None
    inner = {n.name: n for n in build.body if isinstance(n, ast.FunctionDef)}
    for node in reversed(build.body):
        if isinstance(node, ast.Return):
            named = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            return next((inner[name] for name in inner if name in named), None)
    return None


def model_at(text: str, site: str) -> Placed | None:
    """Where the model that is made at a site stands ready, and under which name.

    Args:
        text: of the site's file.
        site: "path/file.py:12" of the call that makes it (`ModelSeen.site`).
    """
    number = int(site.rpartition(":")[2] or 0)
    for block in _all_blocks(ast.parse(text)):
        for at, node in enumerate(block):
            if not node.lineno <= number <= (node.end_lineno or node.lineno):
                continue
            name = _assigned(node)
            if name is None or not any(isinstance(n, ast.Call) for n in ast.walk(node)):
                continue
            last = node
            for later in block[at + 1 :]:
                if not _finishes(later, name):
                    break
                last = later
            return Placed(name, node.lineno, last.lineno)
    return None


def forward_of(text: str, function: str = "", model: str = "") -> Forward | None:
    """The forward pass and its loss in the step, up to the backward pass.

    Args:
        text: of the user's file.
        function: the build function's name; "" searches the whole file.
        model: the model's name, if known: the forward pass begins with its first call.
    """
    inside: ast.AST | None = step_of(text, function) if function else ast.parse(text)
    if inside is None:
        return None
    for block in _all_blocks(inside):
        for at, node in enumerate(block):
            call = _backward_in(node)
            if call is None:
                continue
            before = block[:at]
            joined = any(
                isinstance(n, ast.Call) and not _is_scaling(n)
                for n in ast.walk(call.func.value)  # type: ignore[attr-defined]
            )
            begin = _first_forward(before, model)
            if begin is None:
                line = node.lineno
                return Forward(line, line - 1, line, joined) if joined else None
            last = before[-1]
            return Forward(begin.lineno, last.end_lineno or last.lineno, node.lineno, joined)
    if not function or not isinstance(inside, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    return Forward(inside.body[0].lineno, inside.body[-1].end_lineno or 0)


def _all_blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every block of statements at or below a node, outer ones first."""
    for each in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(each, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _assigned(node: ast.stmt) -> str | None:
    """The one name that a statement assigns."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    else:
        return None
    return ast.unparse(target) if isinstance(target, (ast.Name, ast.Attribute)) else None


_IN_PLACE = frozenset(
    {
        "to",
        "cuda",
        "train",
        "eval",
        "half",
        "bfloat16",
        "float",
        "double",
        "requires_grad_",
        "load_state_dict",
        "apply",
        "init_weights",
    }
)


def _finishes(node: ast.stmt, name: str) -> bool:
    """Whether a statement moves, converts or loads the object of that name."""
    if isinstance(node, ast.Assign):
        value: ast.expr = node.value
        if _assigned(node) != name:
            return False
    elif isinstance(node, ast.Expr):
        value = node.value
    else:
        return False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in _IN_PLACE:
            return False
        value = value.func.value
        if ast.unparse(value) == name:
            return True
    return False


def _backward_in(node: ast.stmt) -> ast.Call | None:
    """`x.backward()` as a statement of its own."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return None
    func = node.value.func
    is_it = isinstance(func, ast.Attribute) and func.attr == "backward"
    return node.value if is_it else None


def _is_scaling(call: ast.Call) -> bool:
    """`scaler.scale(loss)`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "scale"


def _first_forward(block: list[ast.stmt], model: str) -> ast.stmt | None:
    """The statement that the forward pass begins with."""
    for node in block:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
        if model and any(ast.unparse(c.func).startswith(model) for c in calls):
            if not any(_prepares(c) for c in calls):
                return node
        elif not model and calls and not any(_prepares(c) for c in calls):
            return node
    return None


_PREPARING = frozenset(
    {
        "zero_grad",
        "next",
        "to",
        "cuda",
        "train",
        "eval",
        "step",
        "synchronize",
        "time",
        "perf_counter",
        "print",
        "set_epoch",
        "get_batch",
    }
)


def _prepares(call: ast.Call) -> bool:
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return name in _PREPARING
