"""Tensors of classes of their own, and parameters without sizes yet, as fakes.

`tensor.as_subclass(C)` gives a tensor's memory another Python object, which a fake cannot have: it
is its own. So a fake of class C is made of both classes; what C defines comes first.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from gpuscope.program.capture.patches import Patches


class _Wrapping:
    """Wraps results in the class again, as a tensor does and a fake does not.

    By a function of its own: PyTorch's is taken away from classes that dispatch in Python.
    """

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        wrapping: Any = vars(torch.Tensor)["__torch_function__"]
        return wrapping.__func__(cls, func, types, args, kwargs)


@cache
def _fake_of(kind: type) -> type:
    """The class of fakes that are also of `kind`."""
    if issubclass(kind, FakeTensor) or kind in (torch.Tensor, torch.nn.Parameter):
        return kind if issubclass(kind, FakeTensor) else FakeTensor
    own = {"__module__": kind.__module__}
    meta: Any = type(kind)
    made: type = meta(kind.__name__, (kind, _Wrapping, FakeTensor), own)
    return made


_AS_SUBCLASS = torch.Tensor.as_subclass
_MAKE_SUBCLASS = torch.Tensor._make_subclass


def _as_subclass(self: torch.Tensor, kind: type) -> torch.Tensor:
    if not isinstance(self, FakeTensor):
        return _AS_SUBCLASS(self, kind)
    with torch._C.DisableTorchFunctionSubclass():
        made: torch.Tensor = torch.ops.aten.alias.default(self)
    made.__class__ = _fake_of(kind)
    return made


def _make_subclass(
    kind: type, data: torch.Tensor, require_grad: bool = False, *args: Any, **kwargs: Any
) -> torch.Tensor:
    if not isinstance(data, FakeTensor):
        return _MAKE_SUBCLASS(kind, data, require_grad, *args, **kwargs)
    with torch._C.DisableTorchFunctionSubclass():
        made = data.detach().requires_grad_(require_grad)
    made.__class__ = _fake_of(kind)
    return made


class _LazyParameter(UninitializedParameter, FakeTensor):
    """A parameter that gets its size from the first input."""

    cls_to_become = FakeTensor
    shape = torch.Tensor.shape  # type: ignore[assignment]
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


class _LazyBuffer(UninitializedBuffer, FakeTensor):
    """A buffer that gets its size from the first input."""

    cls_to_become = FakeTensor
    shape = torch.Tensor.shape  # type: ignore[assignment]
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


def _parameter(cls: type, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
    made: Any = torch.nn.Parameter(torch.empty(0, device=device, dtype=dtype), requires_grad)
    made.__class__ = _LazyParameter
    return made


def _buffer(
    cls: type,
    requires_grad: bool = False,
    device: Any = None,
    dtype: Any = None,
    persistent: bool = True,
) -> torch.Tensor:
    made = torch.empty(0, device=device, dtype=dtype).requires_grad_(requires_grad)
    made.__class__ = _LazyBuffer
    made.persistent = persistent  # type: ignore[attr-defined]
    made._is_buffer = True  # type: ignore[attr-defined]
    return made


def install(patch: Patches) -> None:
    """Put them in place."""
    patch.set(torch.Tensor, "as_subclass", _as_subclass)
    patch.set(torch.Tensor, "_make_subclass", staticmethod(_make_subclass))
    patch.set(UninitializedParameter, "__new__", staticmethod(_parameter))
    patch.set(UninitializedBuffer, "__new__", staticmethod(_buffer))
