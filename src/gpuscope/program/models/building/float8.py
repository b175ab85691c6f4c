"""Linear layers that multiply in float8 (E4M3 and E5M2), scaled by each tensor's largest value.

Inference keeps the weights in float8. Training keeps them in the model's dtype and casts them,
the inputs and the gradients at every step ("dynamic tensor-wise scaling", Micikevicius et al.
2022, arXiv:2209.05433, and PyTorch's torchao). The output layer stays as it is, as is usual.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_FORWARD = torch.float8_e4m3fn
_BACKWARD = torch.float8_e5m2
_MULTIPLE = 16  # float8 matrix multiplies on the device want dimensions that are multiples of 16


def _to_float8(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The tensor in float8, and the float32 factor that brings it back."""
    limit = torch.finfo(dtype).max
    scale = x.abs().amax().float().clamp(min=1e-12) / limit
    return (x / scale.to(x.dtype)).clamp(-limit, limit).to(dtype), scale


def _multiply(
    a: torch.Tensor, scale_a: torch.Tensor, b: torch.Tensor, scale_b: torch.Tensor, out: torch.dtype
) -> torch.Tensor:
    """a (M, K) row-major times b (K, N) column-major."""
    return torch._scaled_mm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=out)


class _Float8Product(torch.autograd.Function):
    """x W^T with float8 operands, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """(M, K), (N, K) -> (M, N)."""
        x8, x_scale = _to_float8(x, _FORWARD)
        w8, w_scale = _to_float8(weight, _FORWARD)
        ctx.save_for_backward(x8, x_scale, w8, w_scale)
        return _multiply(x8, x_scale, w8.t(), w_scale, x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(M, N) -> gradients (M, K) and (N, K)."""
        x8, x_scale, w8, w_scale = ctx.saved_tensors
        g8, g_scale = _to_float8(grad, _BACKWARD)
        grad_x = _multiply(g8, g_scale, w8.t().contiguous().t(), w_scale, grad.dtype)
        columns = x8.t().contiguous().t()
        grad_w = _multiply(g8.t().contiguous(), g_scale, columns, x_scale, grad.dtype)
        return grad_x, grad_w


class Float8TrainingLinear(nn.Module):
    """A linear layer without bias whose three products are in float8."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        rows = x.reshape(-1, x.shape[-1])
        flat: torch.Tensor = _Float8Product.apply(rows, self.weight)  # type: ignore[no-untyped-call]
        out = flat.view(*x.shape[:-1], -1)
        return out if self.bias is None else out + self.bias


class Float8InferenceLinear(nn.Module):
    """A linear layer with its weight stored in float8."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, scale = _to_float8(linear.weight.detach(), _FORWARD)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        x8, x_scale = _to_float8(x.reshape(-1, x.shape[-1]), _FORWARD)
        flat = _multiply(x8, x_scale, self.weight.t(), self.get_buffer("scale"), x.dtype)
        out = flat.view(*x.shape[:-1], -1)
        return out if self.bias is None else out + self.bias


def use_float8(model: nn.Module, *, training: bool) -> None:
    """Replace the linear layers inside the model's blocks; the output layer stays.

    Layers whose sizes are not multiples of 16 stay too: the device cannot multiply them.
    """
    made = Float8TrainingLinear if training else Float8InferenceLinear
    for name, module in list(model.named_modules()):
        fits = isinstance(module, nn.Linear) and not (
            module.in_features % _MULTIPLE or module.out_features % _MULTIPLE
        )
        if not fits or name.endswith("lm_head"):
            continue
        assert isinstance(module, nn.Linear)
        owner, _, attribute = name.rpartition(".")
        with torch.no_grad():
            setattr(model.get_submodule(owner), attribute, made(module))
