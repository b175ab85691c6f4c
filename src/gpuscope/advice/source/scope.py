"""Whether a name in the user's source is a plain number, and what stands behind a name.

By the assignments that the file holds: a constant, arithmetic of numbers, a size of a tensor, an
argument of a module's constructor. What is not certain is no number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuscope.advice.source.places import Function

__all__ = ["Scope"]

_NUMERIC = frozenset({"sqrt", "float", "int", "pow", "len", "rsqrt_", "log", "exp", "abs"})


class Scope:
    """Names as one function sees them.

    Args:
        tree: of the file.
        function: one of its functions.
    """

    def __init__(self, tree: ast.Module, function: Function) -> None:
        self.tree = tree
        self.function = function
        self.owner = next(
            (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and function in n.body), None
        )

    def values(self, node: ast.expr) -> list[ast.expr]:
        """Everything that the file assigns to a local name, a constant or `self.name`."""
        if isinstance(node, ast.Name):
            local = list(_assigned(self.function, node.id))
            return local or list(_assigned_here(self.tree.body, node.id))
        name = own_attribute(node)
        if name is None or self.owner is None:
            return []
        return [value for _, value in self._attributes(name)]

    def _attributes(self, name: str) -> Iterator[tuple[Function, ast.expr]]:
        """(method, value) of every `self.name = value` and `self.register_buffer`."""
        methods = self.owner.body if self.owner is not None else []
        for method in methods:
            if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            for node in ast.walk(method):
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        if own_attribute(target) == name:
                            yield method, node.value
                elif isinstance(node, ast.AnnAssign) and node.value is not None:
                    if own_attribute(node.target) == name:
                        yield method, node.value
                elif (
                    isinstance(node, ast.Call)
                    and own_attribute(node.func) == "register_buffer"
                    and len(node.args) > 1
                    and isinstance(node.args[0], ast.Constant)
                    and node.args[0].value == name
                ):
                    yield method, node.args[1]

    def is_number(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether an expression certainly is a Python number."""
        if depth > 8:
            return False
        if isinstance(node, ast.Constant):
            return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        if isinstance(node, ast.UnaryOp):
            return self.is_number(node.operand, depth + 1)
        if isinstance(node, ast.BinOp):
            return self.is_number(node.left, depth + 1) and self.is_number(node.right, depth + 1)
        if isinstance(node, ast.IfExp):
            return self.is_number(node.body, depth + 1) and self.is_number(node.orelse, depth + 1)
        if isinstance(node, ast.Call):
            return self._numeric_call(node, depth)
        if isinstance(node, ast.Subscript):
            return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
        if isinstance(node, ast.Name):
            return self._name_is_number(node, depth)
        return self._attribute_is_number(node, depth)

    def _numeric_call(self, node: ast.Call, depth: int) -> bool:
        func = node.func
        if isinstance(func, ast.Attribute):
            if func.attr == "size":
                return len(node.args) == 1
            module = func.value.id if isinstance(func.value, ast.Name) else ""
            if module not in ("math", "np", "numpy"):
                return False
            return all(self.is_number(a, depth + 1) for a in node.args)
        name = func.id if isinstance(func, ast.Name) else ""
        plain = name == "len" or all(self.is_number(a, depth + 1) for a in node.args)
        return name in (*_NUMERIC, "min", "max") and plain

    def _name_is_number(self, node: ast.Name, depth: int) -> bool:
        if any(name == node.id for name in _unpacked_sizes(self.function)):
            return True
        for argument in _arguments(self.function):
            if argument.arg == node.id:
                kind = argument.annotation
                return isinstance(kind, ast.Name) and kind.id in ("int", "float")
        values = self.values(node)
        return bool(values) and all(self.is_number(value, depth + 1) for value in values)

    def _attribute_is_number(self, node: ast.expr, depth: int) -> bool:
        name = own_attribute(node)
        if name is None:
            return False
        found = list(self._attributes(name))
        return bool(found) and all(
            method.name == "__init__" and _made_number(method, value, self, depth + 1)
            for method, value in found
        )


def own_attribute(node: ast.AST) -> str | None:
    """ "scale" of `self.scale`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr if node.value.id == "self" else None
    return None


def _made_number(method: Function, value: ast.expr, scope: Scope, depth: int) -> bool:
    """Whether a constructor assigns a number: its arguments (and their fields) count as numbers."""
    given = {a.arg for a in _arguments(method)} - {"self"}
    if isinstance(value, ast.Name) and value.id in given:
        return True
    if isinstance(value, ast.Attribute):
        root: ast.expr = value
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in given:
            return True
    if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.IfExp)):
        parts = [n for n in ast.iter_child_nodes(value) if isinstance(n, ast.expr)]
        if isinstance(value, ast.IfExp):
            parts = [value.body, value.orelse]
        return all(_made_number(method, part, scope, depth) for part in parts)
    if isinstance(value, ast.BoolOp):
        return all(_made_number(method, part, scope, depth) for part in value.values)
    if isinstance(value, ast.Call) and value.args:
        name = value.func.attr if isinstance(value.func, ast.Attribute) else ""
        name = value.func.id if isinstance(value.func, ast.Name) else name
        home = value.func.value if isinstance(value.func, ast.Attribute) else None
        known = home is None or (isinstance(home, ast.Name) and home.id in ("math", "np", "numpy"))
        return (
            known
            and name in _NUMERIC
            and all(_made_number(method, a, scope, depth) for a in value.args)
        )
    return Scope(scope.tree, method).is_number(value, depth)


def _arguments(function: Function) -> list[ast.arg]:
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def _assigned(function: Function, name: str) -> Iterator[ast.expr]:
    return _assigned_here(function.body, name)


def _assigned_here(body: list[ast.stmt], name: str) -> Iterator[ast.expr]:
    """Values that statements (nested ones too, functions not) assign to a name."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for each in ast.walk(node):
            if isinstance(each, ast.Assign):
                for target in each.targets:
                    if isinstance(target, ast.Name) and target.id == name:
                        yield each.value
                    elif isinstance(target, ast.Tuple) and isinstance(each.value, ast.Tuple):
                        for one, value in zip(target.elts, each.value.elts, strict=False):
                            if isinstance(one, ast.Name) and one.id == name:
                                yield value
            elif (
                isinstance(each, (ast.AnnAssign, ast.AugAssign))
                and each.value is not None
                and isinstance(each.target, ast.Name)
                and each.target.id == name
            ):
                yield each.value


def _unpacked_sizes(function: Function) -> Iterator[str]:
    """Names of `n, length, width = x.shape` (or `x.size()`)."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
            continue
        value = node.value
        if isinstance(value, ast.Call):
            value = value.func if not value.args else value
        if isinstance(value, ast.Subscript):
            value = value.value
        if isinstance(value, ast.Attribute) and value.attr in ("shape", "size"):
            yield from (t.id for t in node.targets[0].elts if isinstance(t, ast.Name))
