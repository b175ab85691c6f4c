"""Every operator has one sort of loop, and is one of PyTorch's."""

from __future__ import annotations

from itertools import combinations

import torch

from gpuscope.program.inductor import operator_sorts as sorts

SORTS = {
    "pointwise": sorts.POINTWISE,
    "random": sorts.RANDOM,
    "composite": sorts.COMPOSITE,
    "overwrites": sorts.OVERWRITES,
    "norms": sorts.NORMS,
    "look-ups": sorts.LOOK_UPS,
    "scatters": sorts.SCATTERS,
    "reductions": sorts.SIMPLE_REDUCTIONS,
}


def test_no_operator_is_of_two_sorts() -> None:
    both = {
        (a, b): common
        for (a, one), (b, other) in combinations(SORTS.items(), 2)
        if (common := one & other)
    }
    assert both == {}


def test_windows_and_shifts_are_elementwise() -> None:
    assert sorts.WINDOWS <= sorts.POINTWISE
    assert sorts.SHIFTING <= sorts.POINTWISE


def test_all_are_operators_of_pytorch() -> None:
    names = frozenset().union(*SORTS.values())
    unknown = {
        n for n in names if not any(hasattr(torch.ops.aten, f"{n}{end}") for end in ("", "_"))
    }
    assert unknown == set()
