"""What a communication operator sends: its sort, its dtype, its elements on one rank.

Operators are named as PyTorch names them. The `c10d` forms take their results as arguments, before
what they send (`_allgather_base_(output, input, ...)`, torch/csrc/distributed/c10d/Ops.cpp); the
functional forms return them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, verbatim
from gpuscope.program.types import Op, TensorSpec

_SORTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (sort, re.compile(pattern))
    for sort, pattern in (
        ("all_reduce", r"all_?reduce"),
        ("reduce_scatter", r"reduce_?scatter"),
        ("all_gather", r"all_?gather"),
        ("all_to_all", r"all_?to_?all|shard_dim_alltoall"),
        ("broadcast", r"broadcast"),
        ("barrier", r"barrier"),
        ("scatter", r"scatter"),
        ("gather", r"gather"),
        ("reduce", r"reduce"),
        ("send", r"send"),
        ("recv", r"recv"),
    )
)

_SPLIT = frozenset({"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})
"""Sorts whose results are another size than what they send."""

UNEVEN = frozenset({"all_to_all", "gather", "scatter"})
"""Sorts whose ranks may give different sizes."""


@dataclass(frozen=True, slots=True)
class Message:
    """One communication call on one rank.

    Attributes:
        sort: "all_reduce", "all_gather", ..., "send", "recv"; the operator's own name where it is
            none of them.
        dtype: torch's name without the prefix; "" without a tensor.
        in_elements, out_elements: what the rank gives and gets.
    """

    sort: str
    dtype: str
    in_elements: int
    out_elements: int

    @property
    def words(self) -> Text:
        """The call in words: "all_reduce of 1,024 bfloat16"."""
        if not self.dtype:
            return verbatim(self.sort)
        return Text(
            "{call} of {elements} {dtype}",
            call=self.sort,
            elements=Number(max(self.in_elements, self.out_elements), ","),
            dtype=self.dtype,
        )

    @property
    def shared(self) -> tuple[object, ...]:
        """What must be equal on all ranks of a group."""
        if self.sort == "barrier" or self.sort in UNEVEN:
            return (self.sort,)
        return (self.sort, self.dtype, self.in_elements, self.out_elements)


def message_of(op: Op) -> Message:
    """What a communication operator sends and gets."""
    short = op.name.split("::")[-1].lower()
    sort = next((name for name, pattern in _SORTS if pattern.search(short)), op.name)
    tensors = op.inputs or op.outputs
    dtype = tensors[0].dtype if tensors else ""
    if op.name.startswith("c10d::"):
        given, got = _arguments(sort, short, op.inputs)
    else:
        given, got = _elements(op.inputs), _elements(op.outputs) or _elements(op.inputs)
    return Message(sort, dtype, given, got)


def _arguments(sort: str, short: str, tensors: Sequence[TensorSpec]) -> tuple[int, int]:
    """Elements given and got of a call whose arguments are its results, then what it sends."""
    if sort not in _SPLIT:
        return _elements(tensors), _elements(tensors)
    if short in ("allgather_", "gather_"):
        results = max(len(tensors) - 1, 0)
    elif short in ("reduce_scatter_", "scatter_"):
        results = 1
    else:
        results = len(tensors) // 2
    return _elements(tensors[results:]), _elements(tensors[:results])


def _elements(tensors: Sequence[TensorSpec]) -> int:
    return sum(tensor.numel for tensor in tensors)
