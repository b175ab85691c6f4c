"""Operators that C++ makes of others where neither a dispatch mode nor a fake sees them.

* `logsumexp` is one operator to a mode and nine on a device, with a temporary as large as its input
  (aten/src/ATen/native/ReduceOps.cpp).
* The gradient of `cumprod` asks the device whether a value is zero, and takes the short way where
  none is. For tensor subclasses, as fakes are, it always takes the long one
  (torch/csrc/autograd/FunctionsManual.cpp). A capture has no values: none is taken to be zero.
"""

from __future__ import annotations

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
    (x == 0).any().item()
    return product.flip(dim).cumsum(dim).flip(dim).div(x)


def _of_cpu() -> Any:
    return made_of_others(torch.ops.aten.cumprod_backward.default)


def register(library: torch.library.Library) -> None:
    """Register what is above autograd on `library` (an "IMPL" library of "aten")."""
    for key in ("AutogradCUDA", "AutogradCPU"):
        library.impl("cumprod_backward", by_thread(cumprod_backward, _of_cpu()), key)
