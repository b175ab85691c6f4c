"""Formulas as text: only arithmetic, and what is shown is what is computed."""

from __future__ import annotations

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from gpuscope.document.text import Text, render
from gpuscope.learn.claims.expression import evaluate, formula, lines_of, plain, readable
from gpuscope.learn.claims.types import Figure


def _stated(value: float, source: str = "a document") -> Figure:
    return Figure(value, Text("dense"), Text(""), "catalogue", (source,))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * 3 + 4", 10),
        ("-2**2", -4),
        ("7 // 2", 3),
        ("7 % 4", 3),
        ("ceil(175 / 80)", 3),
        ("floor(2.7)", 2),
        ("min(3, max(1, 2))", 2),
        ("log2(8)", 3),
        ("abs(-1.5)", 1.5),
        ("1 < 2 <= 2", True),
        ("1 < 2 < 2", False),
        ("not 1 == 2 and 3 > 2", True),
        ("1 > 2 or 2 > 1", True),
        ("1e11 * 16", 1.6e12),
    ],
)
def test_known_answers(expression: str, value: float) -> None:
    assert evaluate(expression, {}) == value


@pytest.mark.parametrize(
    "expression",
    ["__import__('os')", "a.b", "[1]", "'x'", "a", "open(1)", "(lambda: 1)()", "1 if 2 else 3"],
)
def test_nothing_but_arithmetic(expression: str) -> None:
    with pytest.raises(ValueError, match="not arithmetic"):
        evaluate(expression, {"b": 1.0})


@for_all(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(1, 1e6))
def test_agrees_with_python(a: float, b: float, c: float) -> None:
    names = {"a": a, "b": b, "c": c}
    assert evaluate("a * b / c - (a + b)", names) == a * b / c - (a + b)
    assert evaluate("a < b", names) == (a < b)


def test_a_formula_knows_where_its_names_come_from() -> None:
    found = formula("a / b", {"a": lambda: _stated(6.0), "b": lambda: plain(2)}, "x", ("theirs",))
    assert found.value == 3.0
    assert found.sources == ("theirs", "a document")
    assert found.method == "formula"
    assert lines_of("", found) == ["a / b = 3×", "a: dense", "b = 2"]
    assert [render(line, "zh") for line in lines_of("n", found)] == [
        "n = a / b = 3 倍",
        "a：稠密",
        "b = 2",
    ]


def test_a_formula_takes_the_method_with_most_behind_it() -> None:
    modelled = Figure(1.0, Text(""), Text(""), "model")
    assert formula("a + b", {"a": lambda: modelled, "b": lambda: _stated(1.0)}).method == "model"


def test_how_it_reads() -> None:
    assert readable("a * b**2 >= c and d != e") == "a × b^2 ≥ c and d ≠ e"
