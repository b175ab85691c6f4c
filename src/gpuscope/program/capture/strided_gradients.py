"""Gradients of views that were written to in place, as autograd has them for plain tensors.

Where a view is written to (`nn.ReLU(inplace=True)` behind a linear layer on three dimensions, whose
result is a view of the product's), PyTorch makes a new node for it. A tensor subclass, as the fakes
of a capture are, repeats the views that led to it, whose gradients are views. A plain tensor has
`AsStridedBackward0`: the gradient is copied into zeros of the base's size (PyTorch,
`VariableHooks::grad_fn` in torch/csrc/autograd/variable.cpp, `as_strided_backward` in
torch/csrc/autograd/FunctionsManual.cpp). Views whose own gradients are copied into zeros (slices)
do the same work either way. Other views of the base that is written to, alive at the time, get such
a node as well; those are not followed.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

_FREE = {
    f"{name}Backward0"
    for name in ("View", "Transpose", "Permute", "T", "Unsqueeze", "Squeeze", "Alias")
} | {"SqueezeBackward1", "SqueezeBackward2"}
"""Nodes whose gradients are views."""


def settle(recorder: Any, written: list[weakref.ref[torch.Tensor]]) -> None:
    """Hang the copy onto the nodes of views written to, which autograd makes after the operator.

    Args:
        recorder: whose operators are not to count while PyTorch repeats views.
        written: the views; emptied.
    """
    views = [view() for view in written]
    written.clear()
    with recorder.looking_away():
        for view in views:
            if view is not None and view.requires_grad:
                _hang_on(view)


def _hang_on(view: torch.Tensor) -> None:
    node: Any = view.grad_fn
    last, free = node, 0
    while last is not None and last.name() in _FREE:
        last, free = last.next_functions[0][0], free + 1
    base = view._base
    if not free or base is None or last is None or not last.name().endswith("CopySlices"):
        return
    shape, strides = view.shape, view.stride()
    start = min(base.storage_offset(), view.storage_offset())
    size = max(_end(base), _end(view)) - start
    offset = view.storage_offset() - start

    def through_zeros(gradients: Any) -> Any:
        (gradient,) = gradients
        if gradient is None:
            return None
        whole = gradient.new_zeros(size)
        part = whole.as_strided(shape, strides, offset)
        part.copy_(gradient)
        return (part,)

    node.register_prehook(through_zeros)


def _end(tensor: torch.Tensor) -> int:
    """One behind the last element in storage that a tensor reaches."""
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.storage_offset() + reach + 1)
