"""Fake tensors that say they live on "cuda" on a machine without it.

`FakeTensorMode` already carries shapes, dtypes and devices through real PyTorch code without
memory or arithmetic. A CPU-only torch stops it in one place only: C++ code (autograd, views,
`copy_`) asks a tensor for its device and then for that device's guard, which is not linked in.
Those queries arrive as the operator `prim::device`; answered "cpu" there, while Python code
still reads `tensor.device == cuda`, the whole stack runs: tensors keep their CUDA dispatch keys,
so CUDA autocast and CUDA-only branches of Python code behave as on a real device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._subclasses.fake_impls as fake_impls
import torch._subclasses.fake_tensor as fake_tensor_module
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from gpuscope.program.capture.patches import Patches, by_thread

_CPU = torch.device("cpu")
_META = torch.device("meta")
PRIM_DEVICE = torch.ops.prim.device.default


class _Current:
    """The device that "cuda" without a number means."""

    index = 0


class DefaultType:
    """The type that tensors get where none is named, in a capture that is not alone.

    PyTorch has one for the whole process: what another thread makes while a model is built in
    bfloat16 would be bfloat16, too. So where other threads run, PyTorch keeps its own, and what
    follows it in the captured code is made in the code's.

    Attributes:
        process: PyTorch's.
        own: what the captured code has set.
    """

    process = own = torch.float32

    @classmethod
    def differs(cls) -> bool:
        """Whether the captured code has set another type than PyTorch's."""
        return cls.own is not cls.process

    @classmethod
    def change(cls, to: torch.dtype) -> None:
        """As `torch.set_default_dtype`."""
        if not to.is_floating_point:
            raise TypeError("only floating-point types are supported as the default type")
        cls.own = to

    @classmethod
    def follow(cls, patch: Patches) -> None:
        """Set the captured code's type apart from PyTorch's, until the patches are undone."""
        cls.process = cls.own = torch.get_default_dtype()
        patch.set(torch, "set_default_dtype", cls.change)
        patch.set(torch, "get_default_dtype", lambda: cls.own)
        patch.on_undo(lambda: cls.change(cls.process))


def device_index() -> int:
    """Number of the current device, as `torch.cuda.current_device` says."""
    return _Current.index


def accelerator() -> torch.device:
    """The current device."""
    return torch.device("cuda", _Current.index)


def use_device(device: Any = None) -> None:
    """Make a device (number, string, `torch.device`) the current one; None changes nothing."""
    if device is None or (isinstance(device, int) and device < 0):
        return
    _Current.index = with_index(device).index


def is_device_type(device: Any) -> bool:
    """Whether `device` (string, index or torch.device) names an accelerator."""
    if device is None:
        return False
    if isinstance(device, int):
        return True
    kind = device.type if isinstance(device, torch.device) else str(device).split(":")[0]
    return kind in ("cuda", "xpu", "mps", "hip", "npu", "mtia")


def with_index(device: Any) -> Any:
    """Map any accelerator device to "cuda:N" (C++ resolves a missing index by a guard)."""
    if not is_device_type(device):
        return device
    if isinstance(device, int):
        return torch.device("cuda", device)
    index = device.index if isinstance(device, torch.device) else torch.device(str(device)).index
    return torch.device("cuda", _Current.index if index is None else index)


def on_device(tensor: Any) -> bool:
    """Whether a tensor (fake or not) lives on the accelerator, as the user's code sees it."""
    return isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda"


def recorder() -> Any:
    """The recorder of the capture that the calling thread belongs to."""
    modes = _get_current_dispatch_mode_stack()
    return next(mode for mode in reversed(modes) if hasattr(mode, "host_values"))


def answer_device(args: Sequence[Any]) -> torch.device:
    """What C++ hears when it asks a fake tensor for its device."""
    return _META if args[0].fake_mode.in_kernel_invocation else _CPU


def answer_device_queries(patch: Patches, alias: Callable[[Any, Any], None]) -> None:
    """Answer C++ device queries of fake tensors with "cpu" until the patches are undone.

    Args:
        patch: where the replacements are remembered.
        alias: told of a tensor that `.data` makes or changes, and of the one whose memory it has.
    """
    handlers: Any = fake_tensor_module._DISPATCH_META_HANDLERS
    inner = FakeTensor.__dict__["__torch_dispatch__"].__func__

    def dispatch(
        cls: type,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is PRIM_DEVICE:
            return answer_device(args)
        return inner(cls, func, types, args, kwargs or {})

    data = torch.Tensor.__dict__.get("data") or torch._C.TensorBase.__dict__["data"]

    def set_data(self: Any, value: Any) -> None:
        data.__set__(self, value)
        if isinstance(value, FakeTensor):
            self.fake_device = value.fake_device
            self.constant = value.constant  # a small parameter that went to the device has none
            alias(self, value)

    def get_data(self: Any) -> Any:
        found = data.__get__(self)
        alias(found, self)
        return found

    def get_device(self: FakeTensor) -> int:
        return self.fake_device.index or 0 if self.fake_device.type == "cuda" else -1

    asked = torch.Tensor.device

    def device(self: torch.Tensor) -> torch.device:
        """Of what `vmap` and `grad` wrap, which C++ asks: the device of the fake inside."""
        inside = self
        while is_functorch_wrapped_tensor(inside):
            inside = get_unwrapped(inside)
        if isinstance(inside, FakeTensor):
            return inside.device
        wrapped: torch.device | None = vars(inside).get(WRAPPED_ON)
        return asked.__get__(self) if wrapped is None else wrapped

    if PRIM_DEVICE in handlers:
        patch.set_item(handlers, PRIM_DEVICE, by_thread(answer_device, handlers[PRIM_DEVICE]))
    patch.set(FakeTensor, "__torch_dispatch__", classmethod(dispatch))
    patch.set(torch.Tensor, "device", property(device))
    for name in ("is_cuda", "is_cpu"):
        patch.set(torch.Tensor, name, _on(name.removeprefix("is_")))
    patch.set(FakeTensor, "is_cuda", property(lambda self: self.fake_device.type == "cuda"))
    patch.set(FakeTensor, "is_cpu", property(lambda self: self.fake_device.type == "cpu"))
    patch.set(FakeTensor, "data", property(get_data, set_data))
    patch.set(FakeTensor, "get_device", get_device)


_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)


def views_as_run(patch: Patches) -> None:
    """Give views the strides of a real run, also along dimensions of one, until undone.

    Newer torch has a rule of its own for fakes' views, in Python, whose strides differ along
    dimensions of one (torch/_subclasses/fake_impls.py); `matmul` looks at these when it chooses
    between one product and a batch (`should_fold` in ATen/native/LinearAlgebra.cpp).
    """
    rules: Any = fake_impls.op_implementations_dict
    for op in _VIEWS:
        if op in rules:
            patch.set_item(rules, op, by_thread(_view_by(rules[op]), rules[op]))


def _view_by(rule: Callable[..., Any]) -> Callable[..., Any]:
    """C++'s own view of the tensor without memory; what C++ refuses, as torch's rule for fakes."""

    def view(mode: FakeTensorMode, func: Any, a: Any, *shape: Any, **options: Any) -> Any:
        if options or a.layout is not torch.strided:
            return rule(mode, func, a, *shape, **options)
        try:
            with fake_tensor_module.in_kernel_invocation_manager(mode):
                made = func(a, *shape)
        except RuntimeError:
            return rule(mode, func, a, *shape)
        return FakeTensor(mode, made, a.fake_device)

    return view


WRAPPED_ON = "_gpuscope_device"
"""Attribute of a tensor that holds others: the device that it says."""


def _on(kind: str) -> Any:
    """`x.is_cuda` or `x.is_cpu`, of what holds other tensors, too."""
    asked = getattr(torch.Tensor, f"is_{kind}")

    def answer(self: torch.Tensor) -> bool:
        wrapped = vars(self).get(WRAPPED_ON)
        return bool(asked.__get__(self)) if wrapped is None else wrapped.type == kind

    return property(answer)


def without_dynamo(mode: type) -> None:
    """Take off the wrapper that torch puts around a mode's dispatch.

    It exists so that torch.compile does not trace into the mode, imports the whole of
    torch._dynamo (over a second) and costs time on every call; nothing is compiled here.
    """
    wrapped = mode.__dict__.get("__torch_dispatch__")
    raw = getattr(wrapped, "__wrapped__", None)
    if raw is not None:
        mode.__torch_dispatch__ = raw  # type: ignore[attr-defined]


def _any_on_device(values: Any) -> bool:
    for value in values:
        if isinstance(value, FakeTensor):
            if value.fake_device.type == "cuda":
                return True
        elif isinstance(value, (list, tuple)) and _any_on_device(value):
            return True
    return False


class CaptureFakeMode(FakeTensorMode):
    """The fake mode of a capture.

    Decompositions inside an operator ask C++ for a tensor's device, hear "cpu" and pass it on
    (`mask.type_as(grad)`, `zeros(grad.options())`): below a device operator it means the device.
    """

    over = False
    _outer_on_device: bool | None = None

    def __deepcopy__(self, memo: Any) -> CaptureFakeMode:
        """Copied tensors stay in this mode (a copied model is one of the same capture)."""
        return self

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.over:  # of a thread that goes on after the capture
            return func(*args, **kwargs)
        device = kwargs.get("device")
        if device is not None and device.type == "cuda" and device.index is None:
            # Answers are kept by their arguments, also for a capture on another device.
            kwargs = dict(kwargs, device=accelerator())
        if self._outer_on_device is not None:
            device = kwargs.get("device")
            if self._outer_on_device and device is not None and device.type == "cpu":
                kwargs = dict(kwargs, device=accelerator())
            return self._typed(func, types, args, kwargs)
        self._outer_on_device = _any_on_device(args) and kwargs.get("device") is None
        # A small constant would be really copied to the device: hide its value for this call.
        hidden = None
        if args and isinstance(args[0], FakeTensor) and args[0].constant is not None:
            device = kwargs.get("device")
            if device is not None and device.type == "cuda":
                hidden = (args[0], args[0].constant)
                args[0].constant = None
        try:
            return self._typed(func, types, args, kwargs)
        finally:
            self._outer_on_device = None
            if hidden is not None:
                hidden[0].constant = hidden[1]

    def _typed(self, func: Any, types: Any, args: Sequence[Any], kwargs: Any) -> Any:
        """The result; in the captured code's default type where it is of PyTorch's."""
        if not DefaultType.differs():
            return self.dispatch(func, types, args, kwargs)
        caching, self.cache_enabled = self.cache_enabled, False  # all modes share what is kept
        try:
            out = self.dispatch(func, types, args, kwargs)
            if _says_its_type(func, args, kwargs):
                return out
            if isinstance(out, FakeTensor):
                return self._retyped(out)
            if isinstance(out, (list, tuple)):
                made = [self._retyped(o) for o in out]
                return made if isinstance(out, list) else tuple(made)
            return out
        finally:
            self.cache_enabled = caching

    def _retyped(self, out: Any) -> Any:
        if not isinstance(out, FakeTensor) or out.dtype is not DefaultType.process:
            return out
        func = torch.ops.aten._to_copy.default
        return self.dispatch(func, (FakeTensor,), (out,), {"dtype": DefaultType.own})


def _says_its_type(func: Any, args: Sequence[Any], kwargs: Any) -> bool:
    """Whether the result's type is asked for, or follows from a tensor of numbers with a point."""
    if any(r.alias_info is not None for r in func._schema.returns):
        return True
    return any(_gives_type(value) for value in (*args, *kwargs.values()))


def _gives_type(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dtype.is_floating_point or value.dtype.is_complex
    if isinstance(value, (list, tuple)):
        return any(_gives_type(each) for each in value)
    return isinstance(value, torch.dtype)


without_dynamo(CaptureFakeMode)


def fake_mode() -> FakeTensorMode:
    """A fresh mode that also takes the user's real tensors (data read before capture)."""
    return CaptureFakeMode(allow_non_fake_inputs=True)
