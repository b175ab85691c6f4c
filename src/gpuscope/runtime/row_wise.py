"""Whether a module's class works on each row alone, besides its linear layers.

Then rows of several experts may go through it together. Said of torch's own by name; of the user's
own classes by their `forward`, of which every operation must be known.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

__all__ = ["attributes_read", "row_wise", "row_wise_function"]

_MODULES = frozenset(
    {
        "Linear",
        "Sequential",
        "GELU",
        "SiLU",
        "ReLU",
        "ReLU6",
        "LeakyReLU",
        "ELU",
        "SELU",
        "CELU",
        "Tanh",
        "Sigmoid",
        "Softplus",
        "Hardswish",
        "Mish",
        "Identity",
        "Dropout",
    }
)

_FUNCTIONS = frozenset(
    {
        "gelu",
        "silu",
        "relu",
        "relu6",
        "leaky_relu",
        "elu",
        "selu",
        "tanh",
        "sigmoid",
        "softplus",
        "hardswish",
        "mish",
        "dropout",
    }
)
"""Of torch, torch.nn.functional, or a tensor."""

_KNOWN: dict[type, bool] = {}

_READ: dict[type, tuple[str, ...]] = {}

_SYNTAX = (
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.UnaryOp,
    ast.USub,
    ast.Attribute,
    ast.Call,
    ast.keyword,
)


def row_wise(kind: type) -> bool:
    """Whether modules of a class treat each row alone, but for their children."""
    if kind not in _KNOWN:
        _KNOWN[kind] = _is_row_wise(kind)
    return _KNOWN[kind]


# What torch.compiler.assume_constant_result does, without loading the compiler.
row_wise._dynamo_marked_constant = True  # type: ignore[attr-defined]


def attributes_read(kind: type) -> tuple[str, ...]:
    """Names that the `forward` of a class reads of its module (`self.name`).

    Args:
        kind: one of which `row_wise` says yes.

    Returns:
        For torch's own what the class calls its constants (GELU's `approximate`); for others what
        stands in the source, children and functions among them, in order, each once.
    """
    if kind not in _READ:
        _READ[kind] = tuple(dict.fromkeys(_names_read(kind)))
    return _READ[kind]


attributes_read._dynamo_marked_constant = True  # type: ignore[attr-defined]


def row_wise_function(function: Any) -> bool:
    """Whether a function kept by a module (`self.act = F.gelu`) treats each number alone."""
    module = str(getattr(function, "__module__", ""))
    name = getattr(function, "__name__", "")
    return module in ("torch", "torch.nn.functional", "torch._C._nn") and name in _FUNCTIONS


row_wise_function._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _is_row_wise(kind: type) -> bool:
    if _of_torch(kind):
        return kind.__name__ in _MODULES
    function = _forward_of(kind)
    if function is None or function.decorator_list:
        return False
    forward: Any = kind.forward  # type: ignore[attr-defined]
    arguments = function.args
    if len(arguments.args) != 2 or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        return False
    return _Reader(kind, forward.__globals__, *(a.arg for a in arguments.args)).reads(function)


def _of_torch(kind: type) -> bool:
    return kind.__module__.startswith("torch.nn.modules")


def _forward_of(kind: type) -> ast.FunctionDef | None:
    """The source of a class's `forward`; None where there is none to be read."""
    forward = getattr(kind, "forward", None)
    if not inspect.isfunction(forward) or hasattr(forward, "__wrapped__"):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(forward)))
    except (OSError, TypeError, SyntaxError):
        return None
    function = tree.body[0]
    return function if isinstance(function, ast.FunctionDef) else None


def _names_read(kind: type) -> Iterator[str]:
    if _of_torch(kind):
        yield from getattr(kind, "__constants__", ())
        return
    function = _forward_of(kind)
    if function is None or not function.args.args:
        return
    me = function.args.args[0].arg
    for node in ast.walk(function):
        own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if own and node.value.id == me:  # type: ignore[attr-defined]
            yield node.attr  # type: ignore[attr-defined]


class _Reader:
    """Reads a `forward`: each operation must be known."""

    def __init__(self, kind: type, space: dict[str, Any], me: str, rows: str) -> None:
        self.kind, self.space, self.me = kind, space, me
        self.names = {rows}

    def reads(self, function: ast.FunctionDef) -> bool:
        first = function.body[0]
        given = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        return all(map(self._statement, function.body[1:] if given else function.body))

    def _statement(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Return):
            return node.value is not None and self._rows(node.value)
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            return False
        target = node.targets[0]
        if isinstance(target, ast.Tuple):
            parts, known = target.elts, self._halves(node.value)
        else:
            parts, known = [target], self._rows(node.value)
        self.names.update(part.id for part in parts if isinstance(part, ast.Name))
        return known and all(isinstance(part, ast.Name) for part in parts)

    def _halves(self, node: ast.expr) -> bool:
        """`rows.chunk(2, dim=-1)`."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "chunk"
            and self._rows(node.func.value)
            and [ast.unparse(each) for each in (*node.args, *(k.value for k in node.keywords))]
            in (["2", "-1"], ["2", "1"])
        )

    def _rows(self, value: ast.expr) -> bool:
        """Whether every operation of an expression treats rows alone."""
        calls = [n.func for n in ast.walk(value) if isinstance(n, ast.Call)]
        called = {id(func) for func in calls}
        holders = [f.value for f in calls if isinstance(f, ast.Attribute)]
        inside = {id(x) for h in holders if self._holder(h) for x in ast.walk(h)}
        for node in ast.walk(value):
            if id(node) in inside:
                continue
            if not isinstance(node, _SYNTAX):
                return False
            if isinstance(node, ast.Call) and not self._call(node):
                return False
            if isinstance(node, ast.Attribute) and id(node) not in called and not self._own(node):
                return False
            if isinstance(node, ast.Name) and node.id not in {*self.names, self.me}:
                return False
        return True

    def _call(self, node: ast.Call) -> bool:
        """`self.child(x)`, `F.gelu(x)`, `x.relu()`."""
        called = node.func
        if not isinstance(called, ast.Attribute):
            return False
        if self._own(called):
            return len(node.args) == 1 and not node.keywords
        return called.attr in _FUNCTIONS

    def _own(self, node: ast.Attribute) -> bool:
        """`self.name`, where the name is not the class's: a child, or what the module was told."""
        mine = isinstance(node.value, ast.Name) and node.value.id == self.me
        return mine and not hasattr(self.kind, node.attr)

    def _holder(self, node: ast.expr) -> bool:
        """`F`, `torch`, `torch.nn.functional`."""
        first, *rest = ast.unparse(node).split(".")
        value = self.space.get(first)
        for name in rest:
            value = getattr(value, name, None)
        name = getattr(value, "__name__", "") if inspect.ismodule(value) else ""
        return name in ("torch", "torch.nn.functional")
