"""In which order `torch.einsum` multiplies three or more tensors.

Where opt_einsum is installed, PyTorch asks it for the order of least work (`torch.backends.
opt_einsum`, on by default); else it goes from left to right, which can be many times the work and
memory (https://docs.pytorch.org/docs/stable/generated/torch.einsum.html). pip brings it with
`torch[opt-einsum]` alone; JAX and some images have it. A capture does what the packages here do,
and says so; `as_if_installed` captures for a machine that has it though this one does not.

The order: D. G. A. Smith and J. Gray, "opt_einsum - A Python package for optimizing contraction
order for einsum-like expressions", 2018. Up to six tensors all orders are tried, beyond that the
pair that leaves the least is taken each time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from math import prod
from typing import Any

import torch

from gpuscope.document.text import Text

_MOST_TRIED = 6
"""Tensors up to which opt_einsum's "auto" looks at all orders."""

_FROM_LEFT = Text(
    "torch.einsum multiplies three or more tensors from left to right, since opt_einsum is not "
    "installed here. Where it is, PyTorch takes the order of least work, and the step may take "
    "much less time and memory: pip install opt-einsum, and predict again."
)

_assumed: list[bool] = []


@contextmanager
def as_if_installed() -> Iterator[None]:
    """Captures inside of this block are for a machine that has opt_einsum."""
    _assumed.append(True)
    try:
        yield
    finally:
        _assumed.pop()


def install(patch: Any, recorder: Any) -> None:
    """Follow the order of `torch.einsum`, or say that none was looked for."""
    functions: Any = torch._C._VariableFunctions
    multiply = functions.einsum

    def einsum(equation: str, operands: Any, *, path: Sequence[int] | None = None) -> Any:
        found = path
        if len(operands) > 2 and path is None and not torch.backends.opt_einsum.is_available():
            if _assumed:
                found = order_of(equation, [tuple(t.shape) for t in operands])
            else:
                recorder.values.assume(_FROM_LEFT)
        return multiply(equation, operands, path=found)

    patch.set(sys.modules["torch._VF"], "einsum", einsum)


Letters = frozenset[str]


def order_of(equation: str, shapes: Sequence[Sequence[int]]) -> list[int] | None:
    """Which two tensors to multiply, one pair after the other; None if an ellipsis hides letters.

    Positions are those in the list of tensors that are left, to whose end each product goes, as
    PyTorch wants them.
    """
    terms, arrow, out = equation.replace(" ", "").partition("->")
    names = terms.split(",")
    if "." in terms or len(names) != len(shapes):
        return None
    sizes: dict[str, int] = {}
    for name, shape in zip(names, shapes, strict=True):
        for letter, size in zip(name, shape, strict=True):
            sizes[letter] = max(sizes.get(letter, 1), size)
    if not arrow:
        out = "".join(sorted({c for c in terms if c.isalpha() and terms.count(c) == 1}))
    tensors = [frozenset(name) for name in names]
    kept = frozenset(out)
    best = _all_orders if len(tensors) <= _MOST_TRIED else _least_each_time
    return [position for pair in best(tensors, kept, sizes) for position in pair]


Pairs = tuple[tuple[int, int], ...]


def _all_orders(tensors: list[Letters], kept: Letters, sizes: Mapping[str, int]) -> Pairs:
    best: tuple[float, Pairs] = (float("inf"), ())

    def go(left: list[Letters], work: float, done: Pairs) -> None:
        nonlocal best
        if len(left) == 1:
            best = work, done
            return
        for i, j in combinations(range(len(left)), 2):
            product, more = _product(left, i, j, kept, sizes)
            if work + more < best[0]:
                rest = [t for at, t in enumerate(left) if at not in (i, j)]
                go([*rest, product], work + more, (*done, (i, j)))

    go(tensors, 0.0, ())
    return best[1]


def _least_each_time(tensors: list[Letters], kept: Letters, sizes: Mapping[str, int]) -> Pairs:
    left, done = list(tensors), []
    while len(left) > 1:
        pairs = combinations(range(len(left)), 2)
        _, i, j = min((_grown(left, i, j, kept, sizes), i, j) for i, j in pairs)
        product = _product(left, i, j, kept, sizes)[0]
        left = [*(t for at, t in enumerate(left) if at not in (i, j)), product]
        done.append((i, j))
    return tuple(done)


def _grown(
    left: Sequence[Letters], i: int, j: int, kept: Letters, sizes: Mapping[str, int]
) -> float:
    """How much larger a product is than the two tensors that it replaces."""
    product, _ = _product(left, i, j, kept, sizes)
    return _size(product, sizes) - _size(left[i], sizes) - _size(left[j], sizes)


def _product(
    left: Sequence[Letters], i: int, j: int, kept: Letters, sizes: Mapping[str, int]
) -> tuple[Letters, float]:
    """What two tensors make, and the multiplications and additions of it."""
    others = (t for at, t in enumerate(left) if at not in (i, j))
    both = left[i] | left[j]
    product = both & kept.union(*others)
    return product, _size(both, sizes) * (2 if both - product else 1)


def _size(letters: Letters, sizes: Mapping[str, int]) -> float:
    return float(prod(sizes[letter] for letter in letters))
