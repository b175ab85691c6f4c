"""A recorded call as its rule sees it, and what the rule makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuscope.program.types import TensorSpec, row_major

Value = int | float | bool | str | list[int] | list[float] | list[bool] | None

UNKNOWN_DTYPE = "unknown"


@dataclass(frozen=True, slots=True)
class Call:
    """One operator call of a recording.

    Attributes:
        name: without namespace ("addmm").
        tensors: its tensor inputs in order; lists are flattened, absent ones left out.
        texts: the value of each argument as the trace writes it ("" for tensors and None), by
            position in the schema; None where the trace records no values.
    """

    name: str
    tensors: tuple[TensorSpec, ...]
    texts: tuple[str, ...] | None = None

    def value(self, position: int) -> Value:
        """The value of the argument at this position; None if it is absent or not recorded."""
        if self.texts is None or position >= len(self.texts):
            return None
        return parse(self.texts[position])

    def integers(self, position: int) -> list[int] | None:
        """The list of whole numbers at this position (a number alone is a list of one)."""
        found = self.value(position)
        if isinstance(found, bool):
            return None
        if isinstance(found, int):
            return [found]
        if isinstance(found, list) and all(isinstance(n, int) for n in found):
            return [int(n) for n in found]
        return None

    def flag(self, position: int) -> bool | None:
        """The truth value at this position; None if it is not recorded."""
        found = self.value(position)
        return found if isinstance(found, bool) else None


@dataclass(frozen=True, slots=True)
class Made:
    """The call under the name that cost models know.

    Attributes:
        name: with namespace.
        inputs, outputs: tensors.
        args: options by name.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    args: Mapping[str, object] = field(default_factory=dict)


Rule = Callable[[Call], Made | None]

_RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators of these names (without namespace)."""

    def register(function: Rule) -> Rule:
        for name in names:
            if name in _RULES:
                raise ValueError(f"two rules for {name}")
            _RULES[name] = function
        return function

    return register


def rule_of(name: str) -> Rule | None:
    """The rule of an operator; None if nobody wrote one."""
    return _RULES.get(name)


def parse(text: str) -> Value:
    """Read a value as Kineto writes it: "3", "0.5", "True", "[1, 1]"; None if it is none."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        items = [parse(item) for item in text[1:-1].split(",") if item.strip()]
        if all(isinstance(item, (int, float)) for item in items):
            return items  # type: ignore[return-value]
        return None
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


def dense(shape: Sequence[int], like: TensorSpec | None = None, dtype: str = "") -> TensorSpec:
    """A tensor of this shape, row-major, or in the memory order of `like` where that is dense."""
    dtype = dtype or (like.dtype if like else UNKNOWN_DTYPE)
    if like is not None and like.shape == tuple(shape) and like.is_dense:
        return TensorSpec(like.shape, like.stride, dtype)
    if like is not None and len(shape) in (4, 5) and like.is_channels_last:
        return channels_last(shape, dtype)
    return TensorSpec(tuple(shape), row_major(shape), dtype)


def channels_last(shape: Sequence[int], dtype: str) -> TensorSpec:
    """A tensor [N, C, ...] with its channels innermost."""
    order = (1, *range(len(shape) - 1, 1, -1), 0)
    stride, step = [0] * len(shape), 1
    for dim in order:
        stride[dim] = step
        step *= max(shape[dim], 1)
    return TensorSpec(tuple(shape), tuple(stride), dtype)


def swapped(spec: TensorSpec, first: int, second: int) -> TensorSpec:
    """The view with two dimensions exchanged."""
    shape, stride = list(spec.shape), list(spec.stride)
    shape[first], shape[second] = shape[second], shape[first]
    stride[first], stride[second] = stride[second], stride[first]
    return replace(spec, shape=tuple(shape), stride=tuple(stride))
