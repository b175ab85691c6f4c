"""Moves between host and device, where C++ would see none: it takes every fake for a CPU tensor.

`.to("cuda")`, `.cuda()`, `torch.tensor(..., device="cuda")` work without a device guard; `.cpu()`,
`.to("cpu")`, `.tolist()` and `.numpy()` are real copies, that the host waits for.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext, _device_constructors
from torch.utils._mode_utils import no_dispatch

from gpuscope.document.text import Text
from gpuscope.program.capture.fakes import (
    DefaultType,
    accelerator,
    is_device_type,
    on_device,
    with_index,
)
from gpuscope.program.capture.patches import Patches
from gpuscope.program.capture.storages import answer_addresses, held

TYPE_NAMES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}
"""Names of tensors by type, as `torch.cuda.FloatTensor`."""

_ORIGINAL_TO = torch.Tensor.to
_ORIGINAL_TYPE = torch.Tensor.type


class Departures:
    """Whether a copy to the host is what the user asked for.

    C++ composites ask a fake for its device, hear "cpu", and pass that on: only a copy made by
    the functions of this file really goes to the host.
    """

    asked = False


class _Crossing(torch.autograd.Function):
    """A copy between host and device whose gradient goes the other way."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, device: Any, dtype: Any, non_blocking: bool) -> Any:
        ctx.back = (not is_device_type(device), x.dtype)
        return _copied(x, device, dtype, non_blocking)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        came_from_device, dtype = ctx.back
        back = accelerator() if came_from_device else torch.device("cpu")
        if on_device(grad) is came_from_device:
            return grad.to(dtype), None, None, None
        return _copied(grad, back, dtype, False), None, None, None


def crossing(x: torch.Tensor, device: Any, dtype: Any, non_blocking: bool) -> torch.Tensor:
    """Copy to the other side; the gradient, if one is wanted, is copied back."""
    if torch.is_grad_enabled() and x.requires_grad:
        copied: torch.Tensor = _Crossing.apply(x, device, dtype, non_blocking)
        return copied
    return _copied(x, device, dtype, non_blocking)


def _copied(x: torch.Tensor, device: Any, dtype: Any, non_blocking: bool) -> torch.Tensor:
    if is_device_type(device):
        kept: torch.Tensor = torch.ops.aten._to_copy.default(
            x, dtype=dtype, device=with_index(device), non_blocking=non_blocking
        )
        return kept
    return to_host(x, dtype, non_blocking)


def to_host(
    tensor: torch.Tensor, dtype: torch.dtype | None = None, non_blocking: bool = False
) -> torch.Tensor:
    """Copy a device tensor to host memory (pinned and not waited for if `non_blocking`)."""
    Departures.asked = True
    try:
        copied: torch.Tensor = torch.ops.aten._to_copy.default(
            tensor, dtype=dtype, device=torch.device("cpu"), non_blocking=non_blocking
        )
        return copied
    finally:
        Departures.asked = False


def _wanted(args: Any, kwargs: Any) -> tuple[Any, torch.dtype | None, bool, bool]:
    """(device or None, dtype or None, non_blocking, anything else asked) of a `.to()` call."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    rest = list(args)
    other = kwargs.get("other")
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], torch.dtype):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
            dtype = rest.pop(0)
    if other is not None:
        device, dtype = other.device, other.dtype
    non_blocking = bool(rest[0] if rest else kwargs.get("non_blocking", False))
    copy = bool(rest[1] if len(rest) > 1 else kwargs.get("copy", False))
    return device, dtype, non_blocking, copy or kwargs.get("memory_format") is not None


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    device, dtype, non_blocking, more = _wanted(args, kwargs)
    if self.layout is not torch.strided and device is not None:
        if is_device_type(device) is not on_device(self):
            return _sparse_to(self, device, dtype, non_blocking)
        device = None
        kwargs = {} if dtype is None else {"dtype": dtype}
        args = ()
    there = on_device(held(self))
    if device is not None and there:
        if not is_device_type(device):
            if torch.device(device).type == "cpu":
                return crossing(self, device, dtype, non_blocking)
        elif not more and (dtype is None or dtype is self.dtype):
            return self
    if device is None:
        return _ORIGINAL_TO(self, *args, **kwargs)
    if is_device_type(device) and not there and self.layout is torch.strided:
        return crossing(self, device, dtype, non_blocking)
    extra: dict[str, Any] = {k: kwargs[k] for k in ("copy", "memory_format") if k in kwargs}
    if dtype is not None:
        extra["dtype"] = dtype
    return _ORIGINAL_TO(self, device=with_index(device), non_blocking=non_blocking, **extra)


COMPRESSED = "_gpuscope_compressed"
"""Attribute of a sparse tensor of places that stands for a compressed one: see `compressed`."""


def sparse_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The strided tensors that a tensor is made of: itself, or where its values are, and these."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor,)


def _sparse_to(self: torch.Tensor, device: Any, dtype: Any, non_blocking: bool) -> torch.Tensor:
    """A sparse tensor goes to another device part by part."""
    if isinstance(self, FakeTensor):
        *places, values = sparse_parts(self)
        layout, known = self.layout, self.layout is torch.sparse_coo and self.is_coalesced()
    else:
        with no_dispatch():  # made before the capture: fakes of it would hold no values
            plain = self if self.layout is torch.sparse_coo else self.to_sparse()
            *places, values = sparse_parts(plain)
            layout, known = plain.layout, plain.is_coalesced()
    there = [_to(part, device, non_blocking=non_blocking) for part in places]
    held = _to(values, device, dtype, non_blocking=non_blocking)
    if layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(there[0], held, self.shape, is_coalesced=known)
    compressed: Any = torch.sparse_compressed_tensor
    made: torch.Tensor = compressed(*there, held, self.shape, layout=layout)
    return made


def _cuda(
    self: torch.Tensor, device: Any = None, non_blocking: bool = False, **kwargs: Any
) -> torch.Tensor:
    return _to(self, accelerator() if device is None else device, non_blocking=non_blocking)


def _cpu(self: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return _to(self, "cpu")


def _type_as(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return _to(self, other)


def _type(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **_: Any) -> Any:
    if dtype is None:
        prefix = "torch.cuda." if on_device(self) else "torch."
        return _ORIGINAL_TYPE(self).replace("torch.", prefix, 1)
    if isinstance(dtype, torch.dtype):
        return _to(self, dtype)
    name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
    device = "cuda" if ".cuda." in name else "cpu"
    return _to(self, device, TYPE_NAMES[name.rpartition(".")[2]], non_blocking=non_blocking)


def _of_context() -> torch.device | None:
    """Where `with torch.device("cuda")` or a default says that new tensors lie, if on a device.

    PyTorch puts it in for the functions that it had listed, not for those put in their place here.
    """
    for mode in reversed(_get_current_function_mode_stack()):
        if isinstance(mode, DeviceContext):
            return mode.device if is_device_type(mode.device) else None
    return None


def _from_data(original: Any) -> Any:
    def make(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        plain = not isinstance(data, torch.Tensor | torch.UntypedStorage)
        if device is None and plain:
            device = _of_context()
        from_device = isinstance(data, torch.Tensor) and on_device(data)
        if from_device and (device is not None):
            return _to(data, device=device, dtype=kwargs.get("dtype"))
        if is_device_type(device):
            if (
                DefaultType.differs()
                and kwargs.get("dtype") is None
                and type(_first(data)) is float
            ):
                kwargs["dtype"] = DefaultType.own
            made: torch.Tensor = original(data, *args, device="cpu", **kwargs)
            if made.numel() == 0:  # nothing is copied
                return torch.empty(made.shape, dtype=made.dtype, device=with_index(device))
            return _ORIGINAL_TO(made, with_index(device))
        if isinstance(data, torch.UntypedStorage):  # a file of weights, which is mapped
            with no_dispatch():
                mapped: torch.Tensor = original(data, *args, **kwargs)
            return mapped
        if device is None and plain:
            device = "cpu"  # said plainly: PyTorch's own list may hold `original`
        if DefaultType.differs() and kwargs.get("dtype") is None and type(_first(data)) is float:
            kwargs["dtype"] = DefaultType.own
        result: torch.Tensor = original(data, *args, device=device, **kwargs)
        return result

    return make


def _new_tensor(
    self: torch.Tensor, data: Any, *, dtype: Any = None, device: Any = None, **kwargs: Any
) -> torch.Tensor:
    """`x.new_tensor(data)`: where `x` is, of its type."""
    device = self.device if device is None else device
    dtype = self.dtype if dtype is None else dtype
    return torch.tensor(data, dtype=dtype, device=device, **kwargs)


def _first(data: Any) -> Any:
    """The first number of nested lists, which PyTorch takes a type from."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


def _reading(recorder: Any) -> Any:
    """`.tolist()` and `.numpy()` of fakes: one copy; values that are known, else assumed."""

    def tolist(self: torch.Tensor) -> Any:
        if not isinstance(self, FakeTensor):
            return torch._C.TensorBase.tolist(self)
        host = to_host(self) if on_device(self) and self.dim() else self
        known = recorder.host_values.told(host, "tolist")
        if known is not None:
            return known
        shares = recorder.shares_of(host)
        if shares is not None:
            return shares
        value = host.item() if not host.dim() else recorder.value_of(host)

        def nest(shape: tuple[int, ...]) -> Any:
            return [nest(shape[1:]) for _ in range(shape[0])] if shape else value

        return nest(tuple(self.shape))

    def numpy(self: torch.Tensor, *, force: bool = False) -> Any:
        if not isinstance(self, FakeTensor):
            return torch._C.TensorBase.numpy(self, force=force)
        if on_device(self) and not force:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the"
                " tensor to host memory first."
            )
        if self.requires_grad and not force:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy()"
                " instead."
            )
        import numpy as np

        host = to_host(self) if on_device(self) else self
        known = recorder.host_values.told(host, "numpy")
        if known is not None:
            return known
        recorder.values.assume(Text("Arrays read by NumPy are taken as zeros."))
        return np.zeros(tuple(host.shape), _numpy_dtype(host.dtype))

    return tolist, numpy


def _numpy_dtype(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    if name == "bfloat16":
        raise TypeError("Got unsupported ScalarType BFloat16")
    return name


def _deepcopied(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    """`copy.deepcopy(tensor)`: PyTorch copies the storage, which fakes share with none."""
    if id(self) in memo:
        found: torch.Tensor = memo[id(self)]
        return found
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy"
            " protocol at the moment."
        )
    copied = self.detach().clone()
    if isinstance(self, torch.nn.Parameter):
        made: torch.Tensor = torch.nn.Parameter(copied, self.requires_grad)
    else:
        made = copied.requires_grad_(self.requires_grad)
    memo[id(self)] = made
    if self.grad is not None:
        made.grad = copy.deepcopy(self.grad, memo)
    return made


_ORIGINAL_FORMAT = torch.Tensor.__format__


def _formatted(self: torch.Tensor, spec: str) -> str:
    """`f"{loss:.4f}"` reads the value, as it does of a real tensor."""
    if isinstance(self, FakeTensor) and not self.dim() and not self.is_meta:
        return format(self.item(), spec)
    return str(_ORIGINAL_FORMAT(self, spec))


def _shown(recorder: Any) -> Any:
    """`print(x)`: values of the host's, and what is known of a tensor on the device."""
    original = torch.Tensor.__repr__

    def shown(self: torch.Tensor, **kwargs: Any) -> str:
        if not isinstance(self, FakeTensor):
            return str(original(self, **kwargs))
        known = None if on_device(self) else recorder.host_values.read(self)
        with no_dispatch():
            told = str(original(self if known is None else known, **kwargs))
        return told.replace("FakeTensor(", "tensor(", 1)

    return shown


def _compressed(recorder: Any, name: str) -> Any:
    """A function of `compressed`, which few programs need."""

    def call(*args: Any, **kwargs: Any) -> Any:
        from gpuscope.program.capture import compressed

        return getattr(compressed, name)(recorder, *args, **kwargs)

    return call


def _sparse_conversions(patch: Patches, recorder: Any) -> None:
    to_sparse, converted = torch.Tensor.to_sparse, _compressed(recorder, "converted")

    def any_layout(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("layout") in (torch.sparse_csr, torch.sparse_csc):
            return converted(self)
        if kwargs.get("layout") in (torch.sparse_bsr, torch.sparse_bsc):
            return _compressed(recorder, "blocks")()
        return to_sparse(self, *args, **kwargs)

    sparse: Any = torch.sparse_coo_tensor

    def placed(*args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        if is_device_type(device):
            args = (*(torch.as_tensor(part, device=device) for part in args[:2]), *args[2:])
        elif device is not None:
            kwargs["device"] = device
        made: torch.Tensor = sparse(*args, **kwargs)
        return made

    patch.set(torch, "sparse_coo_tensor", placed)
    for name in ("crow_indices", "col_indices", "ccol_indices", "row_indices"):
        patch.set(torch.Tensor, name, _compressed(recorder, name))
    for name in ("to_sparse_bsr", "to_sparse_bsc"):
        patch.set(torch.Tensor, name, _compressed(recorder, "blocks"))
    for name in ("sparse_bsr_tensor", "sparse_bsc_tensor"):
        patch.set(torch, name, _compressed(recorder, "blocks"))
    patch.set(torch, "sparse_csr_tensor", _compressed(recorder, "csr"))
    patch.set(torch, "sparse_csc_tensor", _compressed(recorder, "csc"))
    patch.set(torch.Tensor, "to_sparse_csr", converted)
    patch.set(torch.Tensor, "to_sparse_csc", converted)
    patch.set(torch.Tensor, "to_sparse", any_layout)


def install(patch: Patches, recorder: Any) -> None:
    """Put the conversions in place.

    Args:
        patch: where the replacements are remembered.
        recorder: knows the values that the host reads, or what is taken for them.
    """
    _device_constructors()  # for other threads, it lists what is there now
    tolist, numpy = _reading(recorder)
    for name, function in {
        "to": _to,
        "cuda": _cuda,
        "cpu": _cpu,
        "type_as": _type_as,
        "type": _type,
        "new_tensor": _new_tensor,
        "tolist": tolist,
        "numpy": numpy,
    }.items():
        patch.set(torch.Tensor, name, function)
    patch.set(FakeTensor, "tolist", tolist)
    patch.set(FakeTensor, "__deepcopy__", _deepcopied)
    patch.set(torch.Tensor, "__format__", _formatted)
    patch.set(torch.Tensor, "__repr__", _shown(recorder))
    _sparse_conversions(patch, recorder)
    answer_addresses(patch, recorder.storages)
    patch.on_undo(_device_constructors.cache_clear)  # it lists what is put in place here
    for name in ("tensor", "as_tensor", "asarray"):
        patch.set(torch, name, _from_data(getattr(torch, name)))
