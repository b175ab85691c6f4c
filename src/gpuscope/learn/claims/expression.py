"""Formulas as text: what is computed is what the reader sees.

`formula("peak / bandwidth", peak=..., bandwidth=...)` is a figure whose explanation is the formula
itself, with where each name comes from. Only arithmetic is understood: numbers, names,
+ - * / // % **, comparisons, `and`, `or`, `not`, and the functions ceil, floor, min, max, log2.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from gpuscope.explain.types import Words
from gpuscope.learn.claims.scales import both, number
from gpuscope.learn.claims.types import METHODS, Figure, Method, Source

_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_CALLS: Mapping[str, Callable[..., float]] = {
    "ceil": math.ceil, "floor": math.floor, "min": min, "max": max, "log2": math.log2,
    "abs": abs, "sqrt": math.sqrt,
}  # fmt: skip


_READABLE = (
    ("**", "^"), (" * ", " × "), (" == ", " = "), (" != ", " ≠ "), (" <= ", " ≤ "), (" >= ", " ≥ "),
)  # fmt: skip


def evaluate(expression: str, names: Mapping[str, float]) -> float:
    """Compute an expression.

    Args:
        expression: see the module.
        names: values of its names.

    Raises:
        ValueError: it holds something else than arithmetic, or an unknown name.
    """
    return _value(ast.parse(expression, mode="eval").body, names)


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=bool() | int() | float() as constant):
            return constant
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, names), _value(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, names)
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, names) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(_value(part, names) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_value(each, names) for each in (left, *others)]
            pairs = zip(values, ops, values[1:], strict=False)
            return all(_COMPARE[type(op)](a, b) for a, op, b in pairs)
        case ast.Call(func=ast.Name(id=function), args=arguments) if function in _CALLS:
            return _CALLS[function](*(_value(each, names) for each in arguments))
    raise ValueError(f"not arithmetic, or an unknown name: {ast.unparse(node)}")


def given(names: Mapping[str, Source | float]) -> dict[str, Figure]:
    """Compute the figures behind the names of a formula; a plain number stands for itself."""
    return {
        name: source() if callable(source) else plain(float(source))
        for name, source in names.items()
    }


def plain(value: float, how: Words | None = None) -> Figure:
    """A number that needs no origin (a size that the claim itself states)."""
    text = number(value)
    return Figure(value, how or Words(text, text), Words("", ""), "formula")


def formula(
    expression: str,
    *,
    unit: str | None = None,
    label: tuple[str, str] = ("", ""),
    sources: tuple[str, ...] = (),
    **names: Source | float,
) -> Source:
    """A figure computed by a formula.

    Args:
        expression: see the module.
        unit: to show the result in the explanation; None leaves it out.
        label: a short name, to tell variants apart.
        sources: of the formula itself.
        names: what the expression's names stand for.
    """

    def compute() -> Figure:
        figures = given(names)
        value = float(evaluate(expression, {n: f.value for n, f in figures.items()}))
        how = described(expression, figures)
        if unit is not None:
            shown = both(value, unit)
            how = Words(f"{how.en} → {shown.en}", f"{how.zh} → {shown.zh}")
        return Figure(
            value, how, Words(*label), strongest(figures, "formula"), all_sources(figures, sources)
        )

    return compute


def described(expression: str, figures: Mapping[str, Figure]) -> Words:
    """The formula with where its names come from, in both languages."""
    shown = expression
    for written, read in _READABLE:
        shown = shown.replace(written, read)
    named = {name: f for name, f in figures.items() if f.how.en}
    if not named:
        return Words(shown, shown)
    en = "; ".join(f"{name}: {f.how.en}" for name, f in named.items())
    zh = "；".join(f"{name}：{f.how.zh}" for name, f in named.items())
    return Words(f"{shown}, with {en}", f"{shown}，其中 {zh}")


def strongest(figures: Mapping[str, Figure], least: Method) -> Method:
    """The method of a figure made of several."""
    methods = [f.method for f in figures.values() if f.method != "none"]
    return max([least, *methods], key=METHODS.index)


def all_sources(figures: Mapping[str, Figure], first: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Sources of several figures, each once."""
    return tuple(dict.fromkeys([*first, *(s for f in figures.values() for s in f.sources)]))
