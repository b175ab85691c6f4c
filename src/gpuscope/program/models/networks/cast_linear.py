"""Linear layers whose products are in float8, each operand cast by one kernel.

The way of Transformer Engine with delayed scaling (Micikevicius et al. 2022, arXiv:2209.05433): the
factor of a tensor is known from earlier steps, so one kernel reads the tensor once and writes it in
float8 twice, as it is and with its dimensions swapped. Hopper multiplies rows by columns only, so
the backward pass needs the second; Blackwell needs it for block scales along the other dimension.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

_MULTIPLE = 16  # float8 matrix multiplies on the device want dimensions that are multiples of 16


class CastLinear(nn.Linear):
    """A linear layer that multiplies in float8, forward and backward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        rows = x.reshape(-1, x.shape[-1])
        one = _one(rows)
        flat: torch.Tensor = _CastProduct.apply(rows, self.weight, one)  # type: ignore[no-untyped-call]
        out = flat.view(*x.shape[:-1], flat.shape[-1])
        return out if self.bias is None else out + self.bias


def use_cast_products(blocks: nn.Module) -> None:
    """Let the linear layers inside of `blocks` multiply in float8.

    Layers whose sizes are not multiples of 16 stay, and a router of experts, which is kept exact.
    """
    for name, module in blocks.named_modules():
        fits = type(module) is nn.Linear and not (
            module.in_features % _MULTIPLE or module.out_features % _MULTIPLE
        )
        if fits and not name.endswith(("router", "shared_gate")):
            module.__class__ = CastLinear


def _one(x: torch.Tensor) -> torch.Tensor:
    """A factor of 1, where `x` is."""
    one = torch.ones((), dtype=torch.float32, device=x.device)
    if isinstance(x, DTensor):
        mesh = x.device_mesh
        return DTensor.from_local(one, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return one


@torch.library.custom_op("gpuscope::cast_transpose", mutates_args=())
def cast_transpose(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """(..., M, N) -> (..., M, N) and (..., N, M), both in `dtype` and in order of their rows."""
    cast = x.to(dtype)
    return cast, cast.transpose(-2, -1).contiguous()


@cast_transpose.register_fake
def _(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    swapped = (*x.shape[:-2], x.shape[-1], x.shape[-2])
    return x.new_empty(x.shape, dtype=dtype), x.new_empty(swapped, dtype=dtype)


@register_sharding(torch.ops.gpuscope.cast_transpose.default)  # type: ignore[untyped-decorator]
def _shardings(x: Any, dtype: torch.dtype) -> list[tuple[list[Any], list[Any]]]:
    """What each rank holds of the result, by what it holds of the tensor."""
    whole = Replicate()
    return [
        ([whole, whole], [whole, None]),
        ([Shard(0), Shard(1)], [Shard(0), None]),
        ([Shard(1), Shard(0)], [Shard(1), None]),
    ]


class _CastProduct(torch.autograd.Function):
    """x W^T with float8 operands: inputs in E4M3, gradients in E5M2."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
        """(M, K), (N, K) -> (M, N)."""
        x8, x8_swapped = cast_transpose(x, torch.float8_e4m3fn)
        w8, w8_swapped = cast_transpose(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(x8_swapped, w8_swapped, one)
        return _product(x8, w8.t(), one, x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """(M, N) -> gradients (M, K) and (N, K)."""
        x8_swapped, w8_swapped, one = ctx.saved_tensors
        g8, g8_swapped = cast_transpose(grad, torch.float8_e5m2)
        grad_x = _product(g8, w8_swapped.t(), one, grad.dtype)
        grad_w = _product(g8_swapped, x8_swapped.t(), one, grad.dtype)
        return grad_x, grad_w, None


class _CastGrouped(torch.autograd.Function):
    """Rows sorted by expert times their expert's matrix, with float8 operands."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor
    ) -> torch.Tensor:
        """(M, K), (experts, K, N), where each expert's rows end -> (M, N)."""
        x8, x8_swapped = cast_transpose(x, torch.float8_e4m3fn)
        w8, w8_swapped = cast_transpose(matrices, torch.float8_e4m3fn)
        ctx.save_for_backward(x8_swapped, w8, ends)
        return _grouped(x8, w8_swapped.transpose(-2, -1), ends, x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """(M, N) -> gradients (M, K) and (experts, K, N)."""
        x8_swapped, w8, ends = ctx.saved_tensors
        g8, g8_swapped = cast_transpose(grad, torch.float8_e4m3fn)
        grad_x = _grouped(g8, w8.transpose(-2, -1), ends, grad.dtype)
        grad_w = _grouped(x8_swapped, g8_swapped.t(), ends, grad.dtype)
        return grad_x, grad_w, None


def cast_grouped(x: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """As `torch.nn.functional.grouped_mm`, with float8 operands.

    Args:
        x: (M, K), rows sorted by expert.
        matrices: (experts, K, N).
        ends: where the rows of each expert end, int32.
    """
    out: torch.Tensor = _CastGrouped.apply(x, matrices, ends)  # type: ignore[no-untyped-call]
    return out


def _grouped(
    a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, out: torch.dtype
) -> torch.Tensor:
    """Row-major a times column-major b, group by group of rows (3-D b) or of columns of a."""
    groups = 1 if b.dim() == 3 else ends.shape[0]
    scale_a = torch.ones(a.shape[0] * groups, device=a.device)
    shape = b.shape[:1] + b.shape[-1:] if b.dim() == 3 else (b.shape[1] * groups,)
    scale_b = torch.ones(shape, device=a.device)
    return torch._scaled_grouped_mm(a, b, scale_a, scale_b, offs=ends, out_dtype=out)


def _product(a: torch.Tensor, b: torch.Tensor, one: torch.Tensor, out: torch.dtype) -> torch.Tensor:
    """a (M, K) row-major times b (K, N) column-major."""
    return torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=out)
