"""A frozen linear layer with a low-rank adapter beside it, computed as `peft` computes it.

y = W x + B A x · scale (Hu et al., "LoRA", 2021, arXiv:2106.09685, section 4.1). Adapters are in
float32, and the input is cast to that before autocast casts it back, as in
`peft.tuners.lora.layer.Linear`; beside a 4-bit weight the layer's own result is copied first and
the input stays as it is (`peft.tuners.lora.bnb.Linear4bit`).
"""

from __future__ import annotations

import torch
from torch import nn

from gpuscope.program.models.networks.nf4_linear import NF4Linear


class LoraLinear(nn.Module):
    """A linear layer that learns by its adapter.

    Args:
        base: the frozen layer.
        rank: of the adapter.
        dtype: of the adapter's weights.
    """

    def __init__(self, base: nn.Linear | NF4Linear, rank: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.base_layer = base
        device = base.weight.device
        like = {"bias": False, "device": device, "dtype": dtype}
        self.lora_A = nn.Linear(base.in_features, rank, **like)  # type: ignore[arg-type]
        self.lora_B = nn.Linear(rank, base.out_features, **like)  # type: ignore[arg-type]
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        result: torch.Tensor = self.base_layer(x)
        kept = result.dtype
        if isinstance(self.base_layer, NF4Linear):
            result = result.clone()
        else:
            x = x.to(self.lora_A.weight.dtype)
        learnt: torch.Tensor = self.lora_B(self.lora_A(x)) * self.scale
        return (result + learnt).to(kept)
