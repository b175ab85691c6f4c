"""Operators that C++ makes of others where neither a dispatch mode nor a fake sees them.

* `logsumexp` is one operator to a mode and nine on a device, with a temporary as large as its input
  (aten/src/ATen/native/ReduceOps.cpp).
* The gradient of `cumprod` asks the device whether a value is zero, and takes the short way where
  none is. For tensor subclasses, as fakes are, it always takes the long one
  (torch/csrc/autograd/FunctionsManual.cpp). A capture has no values: none is taken to be zero.
* Some operators look at values of their arguments first: the host reads one number at a time, and
  waits for each. Written down as what they are: small reductions and reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from gpuscope.program.capture.calls import made_of_others
from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.patches import by_thread


def logsumexp(x: torch.Tensor, dim: Any, keepdim: bool = False) -> torch.Tensor:
    """`aten::logsumexp(x, dim, keepdim)`, by the operators that it launches."""
    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    most = x.amax(dim, True)
    kept = most if keepdim else _squeezed(most, dim)
    kept.masked_fill_(kept.abs() == float("inf"), 0)
    return (x - most).exp_().sum(dim, keepdim).log_().add_(kept)


def _squeezed(x: torch.Tensor, dim: Any) -> torch.Tensor:
    dims = [dim] if isinstance(dim, int) else list(dim)
    return x.squeeze(tuple(dims) if dims else tuple(range(x.dim())))


def cumprod_backward(
    grad: torch.Tensor, x: torch.Tensor, dim: int, out: torch.Tensor
) -> torch.Tensor:
    """`aten::cumprod_backward` where no value of `x` is zero, which the host asks for."""
    if not on_device(x):
        return _of_cpu()(grad, x, dim, out)  # type: ignore[no-any-return]
    if x.dim() == 0 or x.numel() <= 1 or x.shape[dim] == 1:
        return grad
    product = out * grad
    zeros = x == 0  # as in C++, it lives to the end, and what is turned as long as its expression
    zeros.any().item()
    turned = product.flip(dim)
    summed = turned.cumsum(dim)
    back = summed.flip(dim)
    del turned, summed
    return back.div(x)


def _of_cpu() -> Any:
    return made_of_others(torch.ops.aten.cumprod_backward.default)


Check = Callable[[Any], Iterator[torch.Tensor]]


def _zero_points(args: Any) -> Iterator[torch.Tensor]:
    """The least and the greatest of whole zero points (FakeQuantPerChannelAffine.cpp)."""
    zero = args[2]
    if not zero.is_floating_point():
        yield zero.min()
        yield zero.max()


def _rounded_zero_points(args: Any) -> Iterator[torch.Tensor]:
    """Zero points that are learnt are rounded first (the same file)."""
    at = 3 if len(args) == 8 else 2
    whole = args[at].round().clamp_(-128, 127)
    if at == 2:
        whole = whole.to(torch.int32)
    yield whole.min()
    yield whole.max()


def _step_and_zero(args: Any) -> Iterator[torch.Tensor]:
    """The kernel takes both as numbers (FakeQuantPerTensorAffine.cpp, the learnable forms)."""
    at = len(args) - 5
    yield args[at][0]
    yield args[at + 1][0]


def _bounds(args: Any) -> Iterator[torch.Tensor]:
    """Where no range is given, from the least to the greatest
    (aten/src/ATen/native/cuda/SummaryOps.cu, `_histc_cuda_template`)."""
    low, high = (*args[2:4], 0, 0)[:2]
    if low == high and args[0].numel():
        yield args[0].min()
        yield args[0].max()


def _spreads(args: Any) -> Iterator[torch.Tensor]:
    """Whether no standard deviation is below zero, asked twice (DistributionTemplates.h)."""
    if isinstance(args[1], torch.Tensor) and args[1].numel():
        for _ in range(2):
            yield args[1].min() >= 0


LOOKED_AT: dict[str, Check] = {
    "aten::fake_quantize_per_channel_affine_cachemask": _zero_points,
    "aten::_fake_quantize_learnable_per_channel_affine": _rounded_zero_points,
    "aten::_fake_quantize_learnable_per_channel_affine_backward": _rounded_zero_points,
    "aten::_fake_quantize_learnable_per_tensor_affine": _step_and_zero,
    "aten::_fake_quantize_learnable_per_tensor_affine_backward": _step_and_zero,
    "aten::histc": _bounds,
    "aten::normal": _spreads,
}
"""Operator -> what of its arguments the host reads before it launches the operator's kernels."""


def look_at(recorder: Any, name: str, args: Any) -> None:
    """Write down what is computed for an operator's checks, and that the host waits for each."""
    if not any(on_device(t) for t in args[:2]):
        return
    flags = LOOKED_AT[name](args)
    while True:
        with recorder:
            flag = next(flags, None)
        if flag is None:
            return
        given = (recorder.spec(flag),)
        recorder.append("aten::_local_scalar_dense", "default", given, (), {}, sync="item")


def register(library: torch.library.Library) -> None:
    """Register what is above autograd on `library` (an "IMPL" library of "aten")."""
    for key in ("AutogradCUDA", "AutogradCPU"):
        library.impl("cumprod_backward", by_thread(cumprod_backward, _of_cpu()), key)
