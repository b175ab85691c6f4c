"""Formulas as text: what is computed is what the reader sees.

`formula("peak / bandwidth", {"peak": ..., "bandwidth": ...})` is a figure whose explanation is the
formula itself, with where each name comes from. Only arithmetic is understood: numbers, names,
+ - * / // % **, comparisons, `and`, `or`, `not`, and the functions ceil, floor, min, max, log2.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType

from gpuscope.document.text import Text, joined, verbatim
from gpuscope.learn.claims.scales import in_unit, number
from gpuscope.learn.claims.types import METHODS, Figure, Method, Source

_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_CALLS: Mapping[str, Callable[..., float]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
    "log2": math.log2,
    "abs": abs,
    "sqrt": math.sqrt,
}


_READABLE = (
    ("**", "^"),
    (" * ", " × "),
    (" == ", " = "),
    (" != ", " ≠ "),
    (" <= ", " ≤ "),
    (" >= ", " ≥ "),
)


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


def computed(names: Mapping[str, Source]) -> dict[str, Figure]:
    """Compute the figures behind the names of a formula."""
    return {name: source() for name, source in names.items()}


def plain(value: float) -> Figure:
    """A number that needs no origin (a size that the claim itself states)."""
    return Figure(value, verbatim(number(value)), verbatim(""), "formula")


def formula(
    expression: str,
    names: Mapping[str, Source] = MappingProxyType({}),
    unit: str = "",
    sources: tuple[str, ...] = (),
) -> Figure:
    """A figure computed by a formula.

    Args:
        expression: see the module.
        names: what the expression's names stand for.
        unit: to show the result in; a claim's own unit, or a plain number, by default.
        sources: of the formula itself.
    """
    figures = computed(names)
    value = float(evaluate(expression, {n: f.value for n, f in figures.items()}))
    return Figure(
        value,
        verbatim(readable(expression)),
        verbatim(""),
        strongest(figures, "formula"),
        all_sources(figures, sources),
        unit,
        tuple(figures.items()),
    )


def readable(expression: str) -> str:
    """An expression as people write it: × for *, ≥ for >=."""
    for written, read in _READABLE:
        expression = expression.replace(written, read)
    return expression


def lines_of(name: str, figure: Figure, unit: str = "") -> list[Text]:
    """A figure line by line: itself, then what its formula was given.

    Args:
        name: what the formula or condition calls it; "" for none.
        figure: the figure.
        unit: for the result of a formula that has no unit of its own.
    """
    line = figure.how
    if figure.unit is not None:
        line = joined([line, in_unit(figure.value, figure.unit or unit)], " = ")
    if name and (figure.method == "formula" or figure.unit is not None):
        line = joined([name, line], " = ")
    elif name:
        line = joined([name, line], ": ")
    found = [line]
    for each, inner in figure.given:
        found += lines_of(each, inner)
    return found


def strongest(figures: Mapping[str, Figure], least: Method) -> Method:
    """The method of a figure made of several."""
    methods = [f.method for f in figures.values() if f.method != "none"]
    return max([least, *methods], key=METHODS.index)


def all_sources(figures: Mapping[str, Figure], first: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Sources of several figures, each once."""
    return tuple(dict.fromkeys([*first, *(s for f in figures.values() for s in f.sources)]))
