"""Loops over experts in a function's source, and one grouped call in their place.

`for e, expert in enumerate(self.experts): t, k = torch.where(chosen == e); out.index_add_(0, t,
expert(x[t]) * w[t, k, None])`, in however many statements, becomes one call of
`gpuscope.runtime.grouped_experts.add_experts`. The loop is followed value by value; a statement
that is not understood, or a value that is used elsewhere, leaves it as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuscope.advice.source.edits import replace_statement
from gpuscope.advice.source.expert_loop_values import Added, Body, Head
from gpuscope.advice.source.places import Function, same_function
from gpuscope.advice.types import Edit

__all__ = ["NEEDS", "expert_edits", "functions_with_experts"]


NEEDS = "from gpuscope.runtime import add_experts"


@dataclass(frozen=True, slots=True)
class _Found:
    """One loop: where it stands, what it goes over, what it adds."""

    loop: ast.For
    head: Head
    added: Added


def functions_with_experts(text: str) -> list[Function]:
    """The functions of a file with a loop over experts that can be replaced."""
    every = [n for n in ast.walk(ast.parse(text)) if isinstance(n, Function)]
    return [node for node in every if next(_loops(node), None) is not None]


def expert_edits(file: str, text: str, function: Function) -> tuple[Edit, ...]:
    """The edits that put a grouped call in the place of the loops over experts in one function.

    Args:
        file: its path.
        text: what it holds.
        function: one of its functions (of any syntax tree of this text).

    Returns:
        () where there is none, or where it is not certain.
    """
    own = same_function(ast.parse(text), function)
    edits = []
    for found in _loops(own):
        edit = replace_statement(file, text, found.loop.lineno, _call(found), (NEEDS,))
        if edit is not None and edit.first == found.loop.lineno:
            edits.append(edit)
    return tuple(edits)


def _call(found: _Found) -> str:
    added, head = found.added, found.head
    given = [added.out, head.experts, added.rows, added.chosen]
    if added.weights:
        given.append(added.weights)
    if head.count:
        given.append(f"count={head.count}")
    if added.by_expert:
        given.append("by_expert=True")
    if added.masked:
        given.append("masked=True")
    return f"add_experts({', '.join(given)})\n"


# -- finding ---------------------------------------------------------------------------------------


def _loops(function: Function) -> Iterator[_Found]:
    inner = {
        id(x)
        for n in ast.walk(function)
        if isinstance(n, (*Function.__args__, ast.ClassDef)) and n is not function
        for x in ast.walk(n)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.For) and id(node) not in inner and not node.orelse:
            head = _head(node)
            body = Body(head, function, node) if head else None
            added = body.added() if body else None
            if head and body and added:
                head = replace(head, experts=body.experts)
                if _is_alone(function, node, head, added):
                    yield _Found(node, head, added)


def _head(loop: ast.For) -> Head | None:
    """What a loop goes over: `enumerate(experts)`, `range(n)`, `zip(range(n), experts)`."""
    call, target = loop.iter, loop.target
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Name):
        return None
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    if not all(isinstance(name, ast.Name) for name in names):
        return None
    known = [name.id for name in names if isinstance(name, ast.Name)]
    kind, args = call.func.id, call.args
    if kind == "enumerate" and len(args) == 1 and len(known) == 2 and _path(args[0]):
        return Head(known[0], known[1], ast.unparse(args[0]))
    if kind == "range" and len(args) == 1 and len(known) == 1:
        return Head(known[0], "", "", ast.unparse(args[0])) if _number(args[0]) else None
    if kind == "zip" and len(args) == 2 and len(known) == 2 and _path(args[1]):
        inner = args[0]
        one = isinstance(inner, ast.Call) and ast.unparse(inner.func) == "range"
        if one and isinstance(inner, ast.Call) and len(inner.args) == 1 and _number(inner.args[0]):
            return Head(known[0], known[1], ast.unparse(args[1]), ast.unparse(inner.args[0]))
    return None


def _path(node: ast.expr) -> bool:
    """`self.experts`, `experts`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _number(node: ast.expr) -> bool:
    """`8`, `N`, `self.n`, `len(self.experts)`."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "len" and len(node.args) == 1 and _path(node.args[0])
    return isinstance(node, ast.Constant) or _path(node)


# -- safety ----------------------------------------------------------------------------------------


def _is_alone(function: Function, loop: ast.For, head: Head, added: Added) -> bool:
    """Whether nothing else uses what the loop makes, and the loop changes nothing it is made of."""
    inside = {id(n) for n in ast.walk(loop)}
    stored = {
        n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    }
    texts = [head.experts, head.count, added.rows, added.chosen, added.weights]
    used = {
        n.id
        for text in texts
        if text
        for n in ast.walk(ast.parse(text, mode="eval"))
        if isinstance(n, ast.Name)
    }
    if used & (stored | {added.out}) or added.out in stored:
        return False
    loops = [n for n in ast.walk(function) if isinstance(n, (ast.For, ast.While)) and n is not loop]
    again = any(each is loop for outer in loops for each in ast.walk(outer))
    for node in ast.walk(function):
        if id(node) in inside or not isinstance(node, ast.Name) or node.id not in stored:
            continue
        if isinstance(node.ctx, ast.Load) and (again or node.lineno > loop.lineno):
            return False
    return not any(_outer(function, name) for name in stored)


def _outer(function: Function, name: str) -> bool:
    return any(
        isinstance(n, (ast.Global, ast.Nonlocal)) and name in n.names for n in ast.walk(function)
    )
