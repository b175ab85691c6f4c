"""Whether experts differ in the weights of their linear layers alone, and work row by row.

Asked at every call, since hooks may be added and layers replaced at any time. Under
`torch.compile` the answer is found while a graph is traced, and every value that is read here is
guarded: a later change of one of them compiles anew. So attributes are read by the names that a
class's `forward` reads, never by walking `vars(module)`: releases before 2.13 cannot trace that
(each answer was then a graph of its own), and later ones guard everything they find there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from gpuscope.runtime.row_wise import attributes_read, row_wise, row_wise_function

__all__ = ["alike"]

_NUMBERS = (int, float, str)
"""Kinds of what a module was told that change what it computes, and can be compared."""

_WEIGHTS = ("Parameter", "FakeTensor")
"""Sharded or quantized weights are tensors of other classes."""


def alike(experts: Sequence[Any]) -> bool:
    """Whether all rows may go through the experts together.

    Args:
        experts: modules, in the order of their numbers.

    Returns:
        True where there are two or more, each of the same classes with the same switches, with no
        hook on any part, and with parameters in linear layers alone, at least one of them.
    """
    first = experts[0] if experts else None
    if len(experts) < 2 or not isinstance(first, nn.Module) or not _has_linear(first):
        return False
    return all(_same(first, each) for each in experts)


def _has_linear(module: nn.Module) -> bool:
    if type(module) is nn.Linear:
        return True
    return any(_has_linear(part) for part in module._modules.values() if part is not None)


def _same(one: Any, other: Any) -> bool:
    """Whether `other` is what `one` is but for its weights; and is of a kind that is followed.

    Compared with itself, a module is only looked at.
    """
    kind = type(one)
    if kind is not type(other) or not row_wise(kind) or one.training != other.training:
        return False
    if other._forward_hooks or other._forward_pre_hooks:
        return False
    if other._backward_hooks or other._backward_pre_hooks:
        return False
    if kind is nn.Linear:
        return _same_linear(one, other)
    if other._parameters or other._buffers:
        return False
    return _same_switches(one, other) and _same_parts(one, other)


def _same_linear(one: Any, other: Any) -> bool:
    replaced = "forward" in other.__dict__ and "gpuscope_merged" not in other.__dict__
    if replaced or (one.bias is None) != (other.bias is None):
        return False
    weight = other.weight
    return (
        type(weight).__name__ in _WEIGHTS
        and weight.is_floating_point()
        and tuple(weight.shape) == tuple(one.weight.shape)
    )


def _same_switches(one: Any, other: Any) -> bool:
    """Whether what `forward` reads of a module, besides its children, is the same."""
    if "forward" in other.__dict__:
        return False
    for name in attributes_read(type(one)):
        if name in one._modules:
            continue
        mine, its = getattr(one, name, None), getattr(other, name, None)
        if mine is None or isinstance(mine, _NUMBERS):
            if type(mine) is not type(its) or mine != its:
                return False
        elif mine is not its or not row_wise_function(mine):
            return False
    return True


def _same_parts(one: Any, other: Any) -> bool:
    mine, its = one._modules, other._modules
    if list(mine) != list(its):
        return False
    return all(_same(part, its[name]) for name, part in mine.items())
