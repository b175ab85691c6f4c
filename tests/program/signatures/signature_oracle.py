"""Calls as a trace records them, next to what PyTorch itself makes of them on meta tensors."""

from __future__ import annotations

from typing import Any

import torch

from gpuscope.program.signatures import complete
from gpuscope.program.types import Op, TensorSpec


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def spec(tensor: torch.Tensor) -> TensorSpec:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorSpec(tuple(tensor.shape), tuple(tensor.stride()), dtype)


def text(value: object) -> str:
    """A value as Kineto writes it; tensors and None are empty."""
    if value is None or isinstance(value, torch.Tensor):
        return ""
    if isinstance(value, (list, tuple)):
        if any(isinstance(v, torch.Tensor) or v is None for v in value):
            return ""
        return "[" + ", ".join(text(v) for v in value) + "]"
    return str(value)


def recorded(name: str, *args: Any) -> Op:
    """The call as the reader of traces leaves it: flat tensors, values by position as text."""
    tensors: list[TensorSpec] = []
    for value in args:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                tensors.append(spec(item))
    texts = tuple(text(value) for value in args)
    values = {"concrete_inputs": texts} if any(texts) else {}
    return Op(0, name, inputs=tuple(tensors), args=values)


def agree(
    name: str,
    *args: Any,
    overload: str = "default",
    strides: bool = True,
    outputs: int = 1,
    elementwise: bool = False,
) -> Op:
    """Complete a recorded call and compare its first outputs with PyTorch's own."""
    found = complete(recorded(name, *args), values_recorded=True, elementwise=elementwise)
    assert found is not None
    operator = getattr(getattr(torch.ops.aten, name.rpartition("::")[2]), overload)
    made = operator(*args)
    results = made if isinstance(made, (tuple, list)) else (made,)
    for mine, theirs in zip(found.outputs[:outputs], results[:outputs], strict=True):
        want = spec(theirs)
        assert mine.shape == want.shape
        assert mine.dtype == want.dtype
        if strides:
            assert mine.stride == want.stride
    return found
