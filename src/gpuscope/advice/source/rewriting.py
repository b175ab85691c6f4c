"""Live code rewritten from its own source: the same edits that a patch writes, taken up at once.

A function keeps its identity, its closure and its decorators; only its code object is replaced (and
put back at the end). So whoever holds the function, a class, a wrapper, a compiled region to come,
runs the new lines.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import linecache
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from gpuscope.advice.source.edits import applied
from gpuscope.advice.source.places import Function
from gpuscope.advice.types import Edit

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["Find", "rewrite"]


Find = Callable[[str, str, Function], tuple[Edit, ...]]
"""Given a file's path, its text and one of its functions: the edits, all within the function."""

_TEXTS: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
"""The texts as they stand after the rewritings of a `Live`, by file."""


def rewrite(live: Live, function: Any, find: Find) -> bool:
    """Edit a function's source and have the function run the result.

    Args:
        live: undoes it at its end.
        function: plain, a method, or decorated.
        find: gives the edits; several changes may edit one function after the other.

    Returns:
        False where nothing was edited: there is no source, the source is not the code that runs,
        nothing was found, or the new lines need a variable of another function.
    """
    plain = _plain(function)
    if plain is None:
        return False
    file = plain.__code__.co_filename
    texts = _TEXTS.get(live)
    if texts is None:
        texts = _TEXTS[live] = {}
    if not texts:
        live.at_end(texts.clear)
    text = texts.get(file) or "".join(linecache.getlines(file))
    place = _place(text, file, plain)
    if place is None:
        return False
    node, number = place
    edits = find(file, text, node)
    if not edits:
        return False
    new_text = applied(text, edits)
    code = _code_of(new_text, file, plain.__qualname__, number)
    if code is None or code.co_freevars != plain.__code__.co_freevars:
        return False
    _provide(live, plain, [need for edit in edits for need in edit.needs])
    live.set(plain, "__code__", code)
    texts[file] = new_text
    return True


def _plain(function: Any) -> FunctionType | None:
    """The function of the user's under its decorators and its binding."""
    for _ in range(20):
        function = getattr(function, "__func__", function)
        inner = getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    return function if inspect.isfunction(function) else None


def _place(text: str, file: str, function: FunctionType) -> tuple[Function, int] | None:
    """A function's syntax tree, and which one of those of its name it is."""
    code = function.__code__
    try:
        found = list(_codes(compile(text, file, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError):
        return None
    named = [each for name, each in found if name == function.__qualname__]
    same = [number for number, each in enumerate(named) if _same(each, code)]
    if not same:
        return None  # the file was edited since it was loaded
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function) and node.name == function.__name__:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == named[same[0]].co_firstlineno:
                return node, same[0]
    return None


def _same(one: CodeType, other: CodeType) -> bool:
    """Whether two code objects do the same, wherever they stand in their file."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars")
    )


def _code_of(text: str, file: str, name: str, number: int) -> CodeType | None:
    try:
        found = list(_codes(compile(text, file, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError):
        return None
    named = [each for each_name, each in found if each_name == name]
    return named[number] if number < len(named) else None


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """All code objects in one, with their qualified names."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each.co_qualname, each
            yield from _codes(each)


def _provide(live: Live, function: FunctionType, needs: list[str]) -> None:
    """Import what new lines need into the function's module, where it is not there."""
    for need in needs:
        node = ast.parse(need).body[0]
        for alias in getattr(node, "names", ()):
            name = alias.asname or alias.name.partition(".")[0]
            if name in function.__globals__:
                continue
            if isinstance(node, ast.ImportFrom):
                value = getattr(importlib.import_module(node.module or ""), alias.name)
            else:
                whole = importlib.import_module(alias.name)
                value = whole if alias.asname else importlib.import_module(name)
            function.__globals__[name] = value
            live.at_end(lambda space=function.__globals__, name=name: space.pop(name, None))  # type: ignore[misc]
