"""Which loops a source line stands in: how visits of different lanes are matched.

Lanes of a warp run a line together where they come to it in the same iteration of the same loops;
so a visit is named by its line and the iterations of the loops around it. This is the order in
which a device with structured control flow brings its lanes together again after a branch.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from types import CodeType


@dataclass(frozen=True, slots=True)
class LoopMap:
    """The loops of one function.

    Attributes:
        around: line -> first lines of the loops around it, outermost first; a loop's own first
            line counts as inside it.
        inside: first line of a loop -> first lines of the loops in it.
    """

    around: dict[int, tuple[int, ...]]
    inside: dict[int, tuple[int, ...]]


TRANSLATED: dict[tuple[str, str], LoopMap] = {}
"""Loops of functions that were translated to Python, by file and name."""


def loops_of(code: CodeType) -> LoopMap:
    """Return the loops of a function; none where its source is not to be had."""
    known = TRANSLATED.get((code.co_filename, code.co_name))
    if known is not None:
        return known
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return LoopMap({}, {})
    return loops_in(tree, first - 1)


def loops_in(tree: ast.AST, shift: int = 0) -> LoopMap:
    """The loops of a function's syntax tree whose lines are `shift` further down."""
    around: dict[int, tuple[int, ...]] = {}
    inside: dict[int, tuple[int, ...]] = {}
    _walk(tree, (), shift, around, inside)
    return LoopMap(around, inside)


def _walk(
    node: ast.AST,
    loops: tuple[int, ...],
    shift: int,
    around: dict[int, tuple[int, ...]],
    inside: dict[int, tuple[int, ...]],
) -> None:
    if isinstance(node, ast.For | ast.While):
        header = node.lineno + shift
        for outer in loops:
            inside[outer] = (*inside.get(outer, ()), header)
        inside.setdefault(header, ())
        loops = (*loops, header)
    if isinstance(node, ast.stmt):
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            around[line + shift] = loops
    for child in ast.iter_child_nodes(node):
        after = isinstance(node, ast.For | ast.While) and child in node.orelse
        _walk(child, loops[:-1] if after else loops, shift, around, inside)
