"""Frozen linear layers, some with a low-rank adapter beside them, as Megatron-LM trains them.

y = W x + B A dropout(x) s (Hu et al. 2021, arXiv:2106.09685, section 4.1). W never changes: in
float8 it is kept as it is multiplied, with its dimensions swapped, too (Transformer Engine's
`fp8_params` with a cache of transposes), so that no step casts it; of what comes in nothing is kept
for a gradient of W. Adapters are products of their own in the job's dtype.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

_MULTIPLE = 16  # as in `cast_linear`
_SCALE = 2.0  # alpha 32 over rank 16


class FrozenLinear(nn.Module):
    """A linear layer whose weight is a buffer.

    Args:
        base: the layer that it stands for.
        dtype: that its weight is kept in where it is not in float8.
        float8: multiply in float8 where the sizes are multiples of 16.
    """

    weight: torch.Tensor
    swapped: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, base: nn.Linear, dtype: torch.dtype, *, float8: bool) -> None:
        super().__init__()
        self.in_features, self.out_features = base.in_features, base.out_features
        self.float8 = float8 and not (base.in_features % _MULTIPLE or base.out_features % _MULTIPLE)
        weight = base.weight.detach().to(torch.float8_e4m3fn if self.float8 else dtype)
        self.register_buffer("weight", weight, persistent=False)
        if self.float8:
            self.register_buffer("swapped", weight.t().contiguous(), persistent=False)
        bias = None if base.bias is None else base.bias.detach().to(dtype)
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        if not self.float8:
            return F.linear(x, self.weight, self.bias)
        rows = x.reshape(-1, x.shape[-1])
        flat: torch.Tensor = _FrozenProduct.apply(rows, self.weight, self.swapped)  # type: ignore[no-untyped-call]
        out = flat.view(*x.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


class AdaptedLinear(FrozenLinear):
    """The same with an adapter, which learns.

    Args:
        base, dtype, float8: see `FrozenLinear`.
        rank: of the adapter.
        dropout: of its input.
    """

    def __init__(
        self, base: nn.Linear, dtype: torch.dtype, rank: int, *, float8: bool, dropout: float = 0.1
    ) -> None:
        super().__init__(base, dtype, float8=float8)
        like: dict[str, Any] = {
            "bias": False,
            "device": base.weight.device,
            "dtype": base.weight.dtype,
        }
        self.lora_a = nn.Linear(base.in_features, rank, **like)
        self.lora_b = nn.Linear(rank, base.out_features, **like)
        nn.init.zeros_(self.lora_b.weight)
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        learnt: torch.Tensor = self.lora_b(self.lora_a(F.dropout(x, self.dropout, self.training)))
        return super().forward(x) + learnt * _SCALE


class _FrozenProduct(torch.autograd.Function):
    """x W^T with float8 operands: inputs in E4M3, gradients in E5M2; none for W."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, swapped: torch.Tensor
    ) -> torch.Tensor:
        """(M, K), (N, K), (K, N) -> (M, N)."""
        ctx.save_for_backward(swapped)
        return _product(x.to(torch.float8_e4m3fn), weight.t(), x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """(M, N) -> the gradient (M, K)."""
        (swapped,) = ctx.saved_tensors
        return _product(grad.to(torch.float8_e5m2), swapped.t(), grad.dtype), None, None


def _product(a: torch.Tensor, b: torch.Tensor, out: torch.dtype) -> torch.Tensor:
    """a (M, K) row-major times b (K, N) column-major."""
    one = torch.ones((), dtype=torch.float32, device=a.device)
    return torch._scaled_mm(a.contiguous(), b, scale_a=one, scale_b=one, out_dtype=out)


def freeze(
    model: nn.Module, blocks: nn.Module, rank: int, dtype: torch.dtype, float8: bool
) -> None:
    """Let adapters beside attention's products alone learn.

    Args:
        model: all of its parameters are frozen, and kept in `dtype`.
        blocks: its blocks; linear layers in their attention get adapters.
        rank: of the adapters.
        dtype: see above.
        float8: whether the blocks' frozen weights are multiplied in float8.
    """
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for name, module in list(blocks.named_modules()):
        for last, child in list(module.named_children()):
            if type(child) is not nn.Linear:
                continue
            own = "attention" in f"{name}.{last}".split(".")
            made = (
                AdaptedLinear(child, dtype, rank, float8=float8)
                if own
                else FrozenLinear(child, dtype, float8=float8)
            )
            setattr(module, last, made)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if not parameter.requires_grad:
                kept = nn.Parameter(parameter.detach().to(dtype), requires_grad=False)
                setattr(module, name, kept)
