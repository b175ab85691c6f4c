"""Whether a flag that the host reads decides if a `while` loop goes on.

Its value is nobody's here. A loop is taken to go on to whatever other bound it has; where it has
none, the reads of its line are counted (`endless.py`), and the loop is named.
"""

from __future__ import annotations

import ast
import linecache
import sys
from functools import lru_cache
from types import FrameType
from typing import Any

from gpuscope.program.user_code import is_library

Span = tuple[int, int, int, int]
"""First and last line from 1, first and last column in bytes from 0."""


def keeps_going() -> bool | None:
    """The value of the flag being read with which the loop that asks goes on.

    None where no `while` of the innermost function of the user's asks by itself.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else _asks(frame)


def _asks(frame: FrameType) -> bool | None:
    """The value with which the loop goes on that a function asks for; None where none does."""
    line, last, first_column, last_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    if line is None or last is None or first_column is None or last_column is None:
        return None
    at = (line, last, first_column, last_column)
    tests = (loop.test for loop in of(frame.f_code.co_filename))
    test = next((t for t in tests if _covers(t, at)), None)
    return None if test is None else _wanted(test, at)


def draws_again() -> bool:
    """Whether a distribution asks, in a loop, if it must draw again what was not accepted."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("gpuscope."):
        frame = frame.f_back
    if frame is None or not frame.f_globals.get("__name__", "").startswith("torch.distributions."):
        return False
    file, line = frame.f_code.co_filename, frame.f_lineno
    return any(loop.lineno <= line <= (loop.end_lineno or 0) for loop in of(file))


@lru_cache(maxsize=64)
def of(file: str) -> tuple[ast.While, ...]:
    """The `while` loops of a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.While))


def _covers(node: Any, at: Span) -> bool:
    begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return bool(begin <= (at[0], at[2]) and (at[1], at[3]) <= end)


def _wanted(test: ast.expr, at: Span) -> bool:
    """True, or False below a `not`."""
    wanted = True
    while True:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            if not _covers(test.operand, at):
                return wanted
            wanted, test = not wanted, test.operand
        elif isinstance(test, ast.BoolOp):
            inner = next((value for value in test.values if _covers(value, at)), None)
            if inner is None:
                return wanted
            test = inner
        else:
            return wanted
