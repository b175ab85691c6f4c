"""Where autograd adds gradients that meet, and into which of them.

A tensor that several operators read has several gradients. The engine adds each to the sum of those
before it, and does so in place where nothing else holds that sum; only tensor subclasses, as the
fakes of a capture are, get a new tensor each time. So an addition of the engine's own is taken for
the in-place one that a real run makes (PyTorch, torch/csrc/autograd/input_buffer.cpp).

So with formulas that put a gradient into zeros (of `gather`, `index_select`, `take`, a maximum's):
for subclasses they do it out of place, which would copy the zeros (`gather_backward` and others in
torch/csrc/autograd/FunctionsManual.cpp, aten/src/ATen/native/TensorAdvancedIndexing.cpp).
"""

from __future__ import annotations

import sys
from typing import Any

import torch

_ENGINE = "_engine_run_backward"
_OWN = ("recorder.py", "accumulating.py", "_python_dispatch.py", "_stats.py")
_SOLE = 4
"""Holders of a tensor while an addition of it is dispatched, where the engine alone keeps it."""


_ATEN = torch.ops.aten
INTO_ZEROS = {
    _ATEN.index_add.default: _ATEN.index_add_.default,
    _ATEN.scatter_add.default: _ATEN.scatter_add_.default,
    _ATEN.scatter.src: _ATEN.scatter_.src,
    _ATEN.scatter.value: _ATEN.scatter_.value,
    _ATEN.put.default: _ATEN.put_.default,
    _ATEN.masked_scatter.default: _ATEN.masked_scatter_.default,
}
"""Operators of such formulas, and what a real run calls."""


def into_fresh(ops: Any, storage: int) -> bool:
    """Whether one of `INTO_ZEROS` writes to zeros that its formula, in C++, has just made.

    Args:
        ops: recorded so far.
        storage: what is written to.
    """
    if torch.is_grad_enabled() or not ops or storage < 0:
        return False
    made = ops[-1]
    zeros = made.name in ("aten::new_zeros", "aten::zeros", "aten::zeros_like")
    return zeros and made.outputs[0].storage == storage and _by_the_engine()


def in_place(args: Any, kwargs: Any) -> bool:
    """Whether a call of `aten::add.Tensor` adds to gradients' sum that a real run overwrites.

    The caller sees to it that the sum is older than the autograd node that runs: a node's own
    formula may add what it has just made.
    """
    if kwargs or len(args) != 2 or torch.is_grad_enabled():
        return False
    total, new = args
    if not (isinstance(total, torch.Tensor) and isinstance(new, torch.Tensor)):
        return False
    if total.shape != new.shape or total.dtype is not new.dtype:
        return False
    alone = total._use_count() <= _SOLE and _holders(total) <= 2  # type: ignore[attr-defined]
    return alone and _dense(total) and _by_the_engine()


def _holders(tensor: torch.Tensor) -> int:
    """Of its storage: the tensor, the object that asks, and views of it."""
    return int(torch._C._storage_Use_Count(tensor.untyped_storage()._cdata))


def _dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill their span, each its own place."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _by_the_engine() -> bool:
    """Whether no Python stands between autograd's engine and the operator."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.endswith(_OWN):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_code.co_name == _ENGINE
