"""Functions that run the edited source: in place, once each, and put back."""

from __future__ import annotations

import ast
import functools
import importlib.util
import itertools
import linecache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.source.edits import after_statement, replace_node
from gpuscope.advice.source.rewriting import Function, rewrite
from gpuscope.advice.types import Edit

TEXT = """\
import functools


def around(f):
    @functools.wraps(f)
    def inner(*args):
        return ("around", f(*args))

    return inner


def make(n):
    def step():
        return n + 1

    @around
    def other():
        return n + 1

    return step, other


class Thing:
    def forward(self, x):
        return super().__hash__() * 0 + x + 1
"""

_numbers = itertools.count()


@pytest.fixture
def code(tmp_path: Path) -> ModuleType:
    path = tmp_path / f"code{next(_numbers)}.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _ones(value: str, needs: tuple[str, ...] = ()) -> Any:
    """Edits that put something in the place of every 1 of a function."""

    def find(file: str, text: str, node: Function) -> tuple[Edit, ...]:
        return tuple(
            replace_node(file, text, n, value, needs)
            for n in ast.walk(node)
            if isinstance(n, ast.Constant) and n.value == 1
        )

    return find


def test_a_closure_a_decorated_function_and_a_method(code: ModuleType) -> None:
    step, other = code.make(10)
    thing = code.Thing()
    live = Live()
    for function in (step, other, thing.forward):
        assert rewrite(live, function, _ones("100"))
        assert not rewrite(live, function, _ones("100"))  # there is no 1 any more
    assert (step(), other(), thing.forward(2)) == (110, ("around", 110), 102)
    live.close()
    assert (step(), other(), thing.forward(2)) == (11, ("around", 11), 3)


def test_one_change_after_the_other(code: ModuleType) -> None:
    step, other = code.make(0)

    def add(file: str, text: str, node: Function) -> tuple[Edit, ...]:
        edit = after_statement(file, text, node.body[0].lineno, "pass\npass\n")
        assert edit is not None
        return (edit,)

    live = Live()
    assert rewrite(live, step, add)  # moves everything below
    assert rewrite(live, step, _ones("7"))
    assert rewrite(live, other, _ones("8"))
    assert (step(), other()) == (7, ("around", 8))
    live.close()
    live.start()
    step, other = code.make(0)
    assert rewrite(live, step, _ones("9"))  # anew after the end
    assert (step(), other()) == (9, ("around", 1))
    live.close()


def test_what_new_lines_need_is_imported_and_removed(code: ModuleType) -> None:
    step, _ = code.make(0)
    live = Live()
    needs = ("import os.path as p", "from math import tau", "import xml.dom")
    assert rewrite(live, step, _ones("[p.sep, round(tau), xml.dom.__name__][n]", needs))
    code.__dict__.setdefault("math", None)
    assert code.make(0)[0]() == 1  # another closure of the same function stays as it is
    assert "tau" in vars(code)
    live.close()
    assert not {"tau", "p", "xml"} & set(vars(code))


def test_a_variable_of_another_function_cannot_be_dropped_or_taken(code: ModuleType) -> None:
    step, _ = code.make(0)

    def drop(file: str, text: str, node: Function) -> tuple[Edit, ...]:
        value = node.body[0].value  # type: ignore[attr-defined]
        return (replace_node(file, text, value, "3"),)

    assert not rewrite(Live(), step, drop)
    assert step() == 1


def test_what_has_no_source_is_left_alone(code: ModuleType) -> None:
    for function in (len, functools.partial(len), Live, eval("lambda: 1"), 3):
        assert not rewrite(Live(), function, _ones("2"))


def test_a_file_that_was_edited_since_it_was_loaded(code: ModuleType) -> None:
    step, _ = code.make(0)
    path = Path(str(code.__file__))
    path.write_text(TEXT.replace("return n + 1", "return n - 1"))
    linecache.checkcache(str(path))
    assert not rewrite(Live(), step, _ones("2"))
    path.write_text("def (\n")
    linecache.checkcache(str(path))
    assert not rewrite(Live(), step, _ones("2"))
