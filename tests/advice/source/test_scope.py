"""Which names are certainly plain numbers."""

from __future__ import annotations

import ast

import pytest

from gpuscope.advice.source.scope import Scope

TEXT = """\
import math

WIDTH = 64
TABLE = make()


class Net:
    def __init__(self, width, heads, config, fancy=None):
        self.scale = (width // heads) ** -0.5
        self.head_size = int(config.hidden / config.heads)
        self.root = math.sqrt(width)
        self.learned = Parameter(width)
        self.twice = 1.0
        self.maybe = fancy.make(width)
        local = width * 2
        self.local = local
        self.chosen = width if heads else 1

    def set(self, x):
        self.twice = x

    def forward(self, x, n: int, given, dropout: float = 0.1):
        b, t, _ = x.shape
        c, d = x.size()
        e = x.size(-1)
        f = x.shape[0] * 2
        g = x.sum()
        h = 1
        h = x.max()
        i, j = 3, x
        k = len(x)
        return x
"""


def _scope() -> Scope:
    tree = ast.parse(TEXT)
    forward = next(
        n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "forward"
    )
    return Scope(tree, forward)


def _is_number(text: str) -> bool:
    return _scope().is_number(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "-0.5",
        "WIDTH",
        "b",
        "t * c / d",
        "e ** -0.5",
        "f",
        "i",
        "k",
        "n",
        "dropout",
        "self.scale",
        "self.head_size",
        "self.root",
        "1.0 / math.sqrt(e)",
        "x.size(1)",
        "x.shape[-1]",
        "float(e)",
        "1 if b else 2",
        "self.chosen",
        "max(b, 2)",
    ],
)
def test_numbers(text: str) -> None:
    assert _is_number(text)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "g",
        "h",
        "j",
        "given",
        "TABLE",
        "nothing",
        "self.learned",
        "self.twice",
        "self.maybe",
        "self.nothing",
        "torch.sqrt(e)",
        "x.size()",
        "math.sqrt(x)",
        "True",
        "'a'",
        "x[0]",
        "e * g",
        "float(x)",
        "other.scale",
    ],
)
def test_what_may_be_a_tensor(text: str) -> None:
    assert not _is_number(text)


def test_what_stands_behind_a_name() -> None:
    scope = _scope()
    assert [ast.unparse(v) for v in scope.values(ast.parse("self.twice", mode="eval").body)] == [
        "1.0",
        "x",
    ]
    assert scope.values(ast.parse("missing", mode="eval").body) == []
