"""Values that a fake tensor does not have, and what is assumed instead.

Code that looks at data (`.item()`, `nonzero`, `if mask.all()`) needs an answer. Three sources,
best first: a constant that the program itself wrote (`torch.ones`, `full`, `arange` ends), a
share that follows from structure (a one-hot of n classes is true in 1/n of its elements), and
plain assumptions (a flag is False, half of a comparison holds), each told to the user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gpuscope.document.text import Text


@dataclass
class Known:
    """What is known of a tensor's values.

    Attributes:
        fill: the value of every element, if all are equal and known.
        density: share of elements that are true or non-zero, if it follows from structure.
        classes: the values are indices into a dimension of this size (topk, argmax, randint).
        rare: whether one certain index was picked, so unlikely to hold everywhere.
        flags: it is the sum of so many flags: compared with their number, it is their `.all()`.
        total: what all values add up to: how many of the picked fell to each.
        below: the values are whole numbers drawn evenly from 0 to this, exclusive (randint).
        part: true where such a number lies between these shares of its range.
        assumed: the sentence to tell when this is used, if it is a guess; "" if it is certain.
    """

    fill: float | None = None
    density: float | None = None
    assumed: str = ""
    classes: int | None = None
    rare: bool = False
    flags: int | None = None
    total: int | None = None
    below: int | None = None
    part: tuple[float, float] | None = None


@dataclass
class Values:
    """Knowledge by storage id, and the assumptions that had to be made."""

    by_storage: dict[int, Known] = field(default_factory=dict)
    assumptions: dict[str, None] = field(default_factory=dict)

    def assume(self, sentence: str) -> None:
        """Note an assumption once."""
        self.assumptions.setdefault(sentence)

    def forget(self, storage: int) -> None:
        """A storage was written to or freed."""
        self.by_storage.pop(storage, None)

    def learn(self, name: str, args: Any, outputs: list[int], inputs: list[int]) -> None:
        """Update knowledge after operator `name` ("aten::ones" style)."""
        if name == "aten::copy_":
            inputs = inputs[1:]  # what is copied; what was there is gone
        known = _result(name, args, [self.by_storage.get(s) for s in inputs])
        for storage in outputs:
            if known is None:
                self.by_storage.pop(storage, None)
            else:
                self.by_storage[storage] = known

    def knows(self, storage: int) -> bool:
        """Whether every element's value is known, or taken for known."""
        known = self.by_storage.get(storage)
        return known is not None and known.fill is not None

    def scalar(self, storage: int, dtype: torch.dtype) -> Any:
        """The value that `.item()` returns."""
        known = self.by_storage.get(storage)
        if known is not None and known.fill is not None:
            if known.assumed:
                self.assume(known.assumed)
            return float(known.fill) if dtype.is_floating_point else _as(dtype, known.fill)
        if dtype is torch.bool:
            self.assume(Text("Flags read from tensors (.item() on a bool) are taken as False."))
            return False
        if dtype.is_floating_point:
            return 1.0
        self.assume(_INTEGERS)
        return 1

    def shares(self, storage: int, count: int) -> list[int] | None:
        """What is taken for so many numbers of which the sum is known: even shares."""
        known = self.by_storage.get(storage)
        if known is None or known.total is None or not count:
            return None
        self.assume(_EVEN)
        each, rest = divmod(known.total, count)
        return [each + (at < rest) for at in range(count)]

    def fill(self, storage: int, value: float) -> None:
        """Every element has this value."""
        self.by_storage[storage] = Known(fill=value)

    def share(self, storage: int, found: int, numel: int) -> None:
        """So many elements of a mask are true: it follows from structure."""
        self.by_storage[storage] = Known(density=found / numel)

    def count_nonzero(self, storage: int, numel: int) -> int:
        """How many elements `nonzero` finds."""
        known = self.by_storage.get(storage)
        if known is not None and known.fill is not None:
            return numel if known.fill else 0
        if known is not None and known.part is not None:
            # Rounded at the ends, so that parts side by side add up to the whole.
            low, high = (round(numel * share) for share in known.part)
            return high - low
        if known is not None and known.density is not None:
            if known.assumed:
                self.assume(known.assumed)
            return max(1, math.ceil(numel * known.density))
        self.assume(
            Text("Half of a data-dependent selection (nonzero, boolean index) is taken as true.")
        )
        return max(1, numel // 2)


def _as(dtype: torch.dtype, value: float) -> Any:
    return bool(value) if dtype is torch.bool else int(value)


_FILL = {
    "aten::ones": 1.0,
    "aten::zeros": 0.0,
    "aten::ones_like": 1.0,
    "aten::zeros_like": 0.0,
    "aten::new_ones": 1.0,
    "aten::new_zeros": 0.0,
    "aten::zero_": 0.0,
}

_INTEGERS = Text(
    "Integers that the host reads from tensors (.item(), .tolist()) are unknown without their "
    "values: where code uses one, 1 is taken."
)

_CHECKS = Text(
    "Checks of data read by the host are taken as passed: .all() true, .any() false; but not that "
    "all picked indices are equal to one (the end of generation)."
)

_CHECKED = {
    "aten::all": 1.0,
    "aten::any": 0.0,
    "aten::_is_all_true": 1.0,
    "aten::_is_any_true": 0.0,
}

_EVEN = Text("Indices picked by topk, argmax or sort are taken as spread evenly over their range.")

_PICKS = {
    "aten::topk",
    "aten::argmax",
    "aten::argmin",
    "aten::sort",
    "aten::argsort",
    "aten::multinomial",
}

_OR = {"aten::bitwise_or", "aten::bitwise_or_", "aten::logical_or", "aten::logical_or_"}

_KEEP = {
    "aten::_to_copy",
    "aten::clone",
    "aten::copy_",
    "aten::expand",
    "aten::permute",
    "aten::contiguous",
    "aten::lift_fresh",
    "aten::repeat",
    "aten::reshape",
    "aten::_unsafe_view",
    "aten::view",
    "aten::unsqueeze",
    "aten::squeeze",
    "aten::select",
    "aten::slice",
    "aten::index",
}

_PARTS = {"aten::select", "aten::slice", "aten::index", "aten::expand", "aten::repeat"}
"""Of these, what may have other elements than what it is made of."""

_COMPARE = {
    "aten::eq": lambda a, b: a == b,
    "aten::ne": lambda a, b: a != b,
    "aten::gt": lambda a, b: a > b,
    "aten::lt": lambda a, b: a < b,
    "aten::ge": lambda a, b: a >= b,
    "aten::le": lambda a, b: a <= b,
}


_ITSELF = {"aten::eq": 1.0, "aten::ne": 0.0}
"""A tensor compared with itself; the other way round where it is compared with infinity."""

_ARITHMETIC = {
    "aten::add": lambda a, b: a + b,
    "aten::sub": lambda a, b: a - b,
    "aten::mul": lambda a, b: a * b,
    "aten::floor_divide": lambda a, b: a // b if b else a,
    "aten::remainder": lambda a, b: a % b if b else a,
}
"""Between a tensor of one integer and a number: `data[i : i + length]` keeps its length."""


def _reckoned(name: str, args: Any, first: Known | None) -> Known | None:
    """What becomes of one integer whose value is known or will be assumed."""
    if len(args) < 2 or not _is_int(args[1]) or not isinstance(args[0], torch.Tensor):
        return None
    if args[0].dim() or args[0].dtype.is_floating_point or args[0].dtype is torch.bool:
        return None
    known = first if first is not None and first.fill is not None else Known(1.0, assumed=_INTEGERS)
    return Known(float(_ARITHMETIC[name](int(known.fill or 0), args[1])), assumed=known.assumed)


def _summed(args: Any, first: Known | None) -> Known | None:
    """What is known of a sum of whole numbers: of equal ones the product, of flags their number."""
    over = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
    shape = args[0].shape
    count = math.prod(shape[d] for d in over) if over else math.prod(shape)
    if first is not None and first.total is not None and not over:
        return Known(fill=float(first.total), assumed=first.assumed)
    if first is not None and first.fill is not None:
        return Known(fill=first.fill * count, assumed=first.assumed)
    if first is not None and first.density is not None and over:
        return _shared(round(math.prod(shape) * first.density), math.prod(shape) // count)
    return Known(flags=count) if args[0].dtype is torch.bool and not over else None


def _shared(total: int, among: int) -> Known:
    """How many of the picked fall to each of the picks."""
    return Known(fill=float(total // max(1, among)), assumed=_EVEN, total=total)


_DRAWN = {"aten::randint", "aten::randint_like"}

_BEYOND = {"aten::ge": 0, "aten::gt": 1}
_UP_TO = {"aten::lt": 0, "aten::le": 1}
"""Comparisons with a number that cut a range, and by how much the cut lies behind the number."""

_AND = {"aten::bitwise_and", "aten::logical_and", "aten::bitwise_and_", "aten::logical_and_"}


def _cut(name: str, args: Any, inputs: list[Known | None]) -> Known | None:
    """Which part of an even range a comparison, or two together, let through."""
    first = inputs[0] if inputs else None
    if name in _AND:
        parts = [k.part for k in inputs if k is not None and k.part is not None]
        if len(parts) < 2 or len(parts) < len(inputs):
            return None  # also bits cut out by a number
        low = max(p[0] for p in parts)
        return Known(part=(low, max(low, min(p[1] for p in parts))))
    if first is None or first.below is None or len(args) < 2 or not _is_int(args[1]):
        return None
    behind = _BEYOND[name] if name in _BEYOND else _UP_TO[name]
    at = min(max((args[1] + behind) / first.below, 0.0), 1.0)
    return Known(part=(at, 1.0) if name in _BEYOND else (0.0, at))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _result(name: str, args: Any, inputs: list[Known | None]) -> Known | None:
    first = inputs[0] if inputs else None
    if name in _FILL:
        return Known(fill=_FILL[name])
    if name in ("aten::full", "aten::full_like", "aten::fill_", "aten::new_full"):
        number = args[-1] if args else None
        return Known(fill=float(number)) if isinstance(number, (int, float, bool)) else None
    if name == "aten::mul" and len(inputs) > 1 and all(k and k.fill is not None for k in inputs):
        return Known(fill=math.prod(k.fill or 0.0 for k in inputs if k))
    if name in _ITSELF and args[0] is args[1]:
        return Known(fill=_ITSELF[name])  # but for what is not a number: a healthy step has none
    if name in _ITSELF and isinstance(args[1], float) and args[1] == math.inf:
        return Known(fill=1.0 - _ITSELF[name])
    if name in _ARITHMETIC:
        return _reckoned(name, args, first)
    if name == "aten::sum" and not args[0].dtype.is_floating_point:
        return _summed(args, first)
    if name == "aten::bincount" and len(args) > 2 and args[1] is None and args[2]:
        return _shared(args[0].numel(), args[2])
    if name == "aten::cat":
        fills = {k.fill if k is not None else None for k in inputs}
        return first if len(fills) == 1 and None not in fills else None
    if name == "aten::eq" and first is not None and first.flags and first.flags == args[1]:
        return Known(fill=1.0, assumed=_CHECKS)
    if name in _COMPARE and first is not None and first.fill is not None and len(args) > 1:
        other = args[1]
        if isinstance(other, (int, float, bool)):
            return Known(fill=float(_COMPARE[name](first.fill, other)))
    if name in _PICKS and args:
        given = args[2:] if name in ("aten::topk", "aten::multinomial") else args[1:]
        dim = next((a for a in given if _is_int(a)), -1)
        return Known(classes=args[0].shape[dim]) if args[0].dim() else None
    if name == "aten::eq" and first is not None and first.classes:
        return Known(density=1 / first.classes, assumed=_EVEN, rare=True)
    if name in _AND or name in _BEYOND or name in _UP_TO:
        return _cut(name, args, inputs)
    if name in _DRAWN:
        *start, end = (a for a in args if _is_int(a))
        return None if any(start) else Known(below=end)
    if name in _OR and any(k is not None and k.rare for k in inputs):
        return Known(rare=True)
    if name == "aten::all" and first is not None and first.rare:
        return Known(fill=0.0, assumed=_CHECKS)
    if name in _CHECKED and (first is None or first.fill is None):
        return Known(fill=_CHECKED[name], assumed=_CHECKS)
    if name in (*_CHECKED, "aten::max", "aten::min", "aten::amax", "aten::amin"):
        return first if first is not None and first.fill is not None else None
    if name in ("aten::isnan", "aten::isinf"):
        return Known(fill=0.0)
    if name == "aten::scatter" and first is not None and first.fill == 0.0:
        size = args[0].shape[args[1]] if len(args) > 1 and isinstance(args[1], int) else 0
        index = args[2] if len(args) > 2 else None
        picked = index.shape[args[1]] if isinstance(index, torch.Tensor) else 1
        return Known(density=picked / size) if size else None
    if name in _PARTS and first is not None:
        picked = name == "aten::index"
        return replace(first, total=None, below=None if picked else first.below)
    if name in _KEEP:
        return first
    if name == "aten::logical_not" and first is not None and first.fill is not None:
        return Known(fill=float(not first.fill))
    return None
