"""Experts whose products have biases and whose gates are clamped, as GPT-OSS has them.

What Megatron-LM makes of them is followed operator by operator: the first product adds its bias as
it is written (Transformer Engine's grouped linear), gate and value are clamped one by one and put
together again before the fused activation (megatron/core/fusions/fused_bias_geglu.py,
`weighted_bias_quick_geglu_impl`), and the last bias is added in float32 steps of its own
(megatron/core/transformer/moe/experts.py, `TEGroupedMLP._apply_bias`). Each has a module of its
own, by whose name `gpuscope.program.models.parallel.software` finds what a product takes over.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gpuscope.program.models.building.precision import holds_no_values
from gpuscope.program.models.networks.expert_matrices import ExpertMatrices, local_part
from gpuscope.program.models.networks.transformer_parts import ACTIVATION
from gpuscope.program.models.parallel.size import Experts, TransformerSize


class ProductBias(nn.Module):
    """Adds the bias of every row's expert."""

    def forward(self, rows: torch.Tensor, biases: torch.Tensor, sizes: list[int]) -> torch.Tensor:
        """Rows (n, width) sorted by expert, (experts, width), rows of each expert -> the same."""
        each = zip(torch.split(rows, sizes), biases.unbind(), strict=True)
        return torch.cat([part + bias for part, bias in each])


class WeightedBias(nn.Module):
    """The same in float32 and cast back, each bias times the weight that its row's token gives to
    the expert. Weights multiply what comes back here, so this one is 1; it learns as there."""

    def forward(self, rows: torch.Tensor, biases: torch.Tensor, sizes: list[int]) -> torch.Tensor:
        """As `ProductBias`."""
        weights = torch.ones(len(rows), 1, dtype=torch.float32, device=rows.device)
        shares = torch.split(weights.requires_grad_(), sizes)
        each = zip(torch.split(rows, sizes), biases.unbind(), shares, strict=True)
        return torch.cat([part + bias * share for part, bias, share in each]).to(rows.dtype)


class Clamp(nn.Module):
    """Keeps a gate and the value beside it within a limit, the gate from above alone."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, joined: torch.Tensor) -> torch.Tensor:
        """(n, gate and value) -> the same."""
        gate, value = joined.chunk(2, dim=-1)
        limit = self.limit
        return torch.cat((gate.clamp(max=limit), value.clamp(-limit, limit)), dim=-1)


def rows_of_each(counts: torch.Tensor, rows: int) -> list[int]:
    """Rows of every expert as the host knows them; alike where tensors hold no values."""
    here = len(counts)
    if holds_no_values(str(counts.device)):
        return [rows // here + (expert < rows % here) for expert in range(here)]
    sizes: list[int] = counts.tolist()
    return sizes


class BiasedExperts(ExpertMatrices):
    """Experts whose products have biases, and whose gates are clamped where the model says so.

    Args:
        fused: as Megatron-LM has them, too, what is said above of the last bias.
    """

    def __init__(
        self, size: TransformerSize, experts: Experts, *, fused: bool = False, **more: Any
    ) -> None:
        super().__init__(size, experts, fused=fused, **more)
        self.limit = experts.limit
        self.clamp = Clamp(experts.limit) if experts.limit else nn.Identity()
        self.first_bias = ProductBias()
        self.last_bias = WeightedBias() if fused else ProductBias()
        for name in ("up", "gate", "down"):
            matrix = getattr(self, name)
            if matrix is not None:
                bias = nn.Parameter(matrix.new_zeros(experts.count, matrix.shape[-1]))
                self.register_parameter(f"{name}_bias", bias)

    def forward(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Tokens (n, hidden) sorted by expert, and how many each expert gets -> (n, hidden)."""
        sizes = rows_of_each(counts, len(tokens))
        ends = counts.cumsum(0).to(torch.int32)
        act, limit = ACTIVATION[self.activation], self.limit

        def made(rows: torch.Tensor, name: str, bias: nn.Module) -> torch.Tensor:
            matrices = local_part(getattr(self, name))
            if self.grouped:
                out = self.product(rows, matrices, ends)
            else:
                each = zip(torch.split(rows, sizes), matrices.unbind(), strict=True)
                out = torch.cat([part @ matrix for part, matrix in each])
            added: torch.Tensor = bias(out, local_part(getattr(self, f"{name}_bias")), sizes)
            return added

        inner = made(tokens, "up", self.first_bias)
        if self.joined:
            inner = self.gated_halves(self.clamp(inner), act)
        elif self.gate is not None:
            gate = made(tokens, "gate", self.first_bias)
            if limit:
                gate, inner = gate.clamp(max=limit), inner.clamp(-limit, limit)
            inner = self.gated(gate, inner, act)
        else:
            inner = self.act(inner)
        return made(inner, "down", self.last_bias)
