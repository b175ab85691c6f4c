"""Tensors of classes of their own, and parameters without sizes yet, as fakes.

`tensor.as_subclass(C)` gives a tensor's memory another Python object, which a fake cannot have: it
is its own. So a fake of class C is made of both classes; what C defines comes first.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.utils._mode_utils import no_dispatch

from gpuscope.program.capture.fakes import WRAPPED_ON, is_device_type, with_index
from gpuscope.program.capture.patches import Patches, by_thread
from gpuscope.program.script.runner import when_imported


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


_MAKE_WRAPPER = torch.Tensor._make_wrapper_subclass
_DEVICE_AT = 6
"""Position of the device among the arguments of `_make_wrapper_subclass`, after the class."""


def _make_wrapper(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A tensor that holds others: to C++ a CPU tensor, as fakes are, to Python where it says."""
    given = list(args)
    device = kwargs.get("device", given[_DEVICE_AT] if len(given) > _DEVICE_AT else None)
    if not is_device_type(device):
        return _MAKE_WRAPPER(cls, *args, **kwargs)
    if "device" in kwargs:
        kwargs["device"] = torch.device("cpu")
    else:
        given[_DEVICE_AT] = torch.device("cpu")
    made = _MAKE_WRAPPER(cls, *given, **kwargs)
    with suppress(AttributeError):  # a class with slots says itself where it is
        setattr(made, WRAPPED_ON, with_index(device))
    return made


def _causal_bias(cls: type, *args: Any) -> Any:
    """A bias that holds no values but its sizes: a real tensor of its class."""
    with no_dispatch():
        return torch.Tensor.__new__(cls)


def _flash_takes(params: Any, debug: bool = False) -> bool:
    """Whether FlashAttention takes a causal bias on CUDA: `can_use_flash_attention` knows no fakes.

    aten/src/ATen/native/transformers/cuda/sdp_utils.cpp: half precision, one width of at most 256,
    equal heads unless groups are asked for.
    """
    q, k, v = params.query, params.key, params.value
    heads = params.enable_gqa or q.shape[1] == k.shape[1]
    one_width = q.shape[-1] == k.shape[-1] == v.shape[-1] <= 256
    half = q.dtype in (torch.float16, torch.bfloat16)
    return torch.backends.cuda.flash_sdp_enabled() and q.dim() == 4 and heads and one_width and half


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


_JAGGED = "torch.nested._internal.ops"


def _nested(patch: Patches, recorder: Any) -> None:
    """What `nested` does for jagged tensors, loaded where there are some."""

    def ragged_size(self: FakeTensor, *, coeff: Any = 1) -> Any:
        from gpuscope.program.capture import nested

        return nested.ragged_size(self, coeff)

    def operators() -> None:
        module, name = sys.modules[_JAGGED], "jagged_scaled_dot_product_attention"
        original = getattr(module, name, None)

        def attention(*args: Any, **kwargs: Any) -> Any:
            from gpuscope.program.capture import nested

            return nested.attention(recorder, original, *args, **kwargs)

        patch.set(module, name, attention, only_if_present=True)

    patch.set(FakeTensor, "get_nested_int", ragged_size, only_if_present=True)
    patch.on_undo(when_imported(_JAGGED, operators))


def install(patch: Patches, recorder: Any) -> None:
    """Put them in place."""
    _nested(patch, recorder)
    patch.set(torch.Tensor, "as_subclass", _as_subclass)

    def biases() -> None:
        module = sys.modules["torch.nn.attention.bias"]
        made = by_thread(_causal_bias, torch.Tensor.__new__)
        patch.everywhere(module.CausalBias, "__new__", staticmethod(made))
        name = "can_use_flash_attention"
        patch.set(module, name, by_thread(_flash_takes, getattr(module, name)))

    patch.on_undo(when_imported("torch.nn.attention.bias", biases))
    patch.set(torch.Tensor, "_make_wrapper_subclass", staticmethod(_make_wrapper))
    patch.set(torch.Tensor, "_make_subclass", staticmethod(_make_subclass))
    patch.set(UninitializedParameter, "__new__", staticmethod(_parameter))
    patch.set(UninitializedBuffer, "__new__", staticmethod(_buffer))
