"""The matrices of several experts, multiplied with the rows of each."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.networks.cast_linear import cast_grouped
from gpuscope.program.models.networks.fused_steps import one_kernel
from gpuscope.program.models.networks.transformer_parts import ACTIVATION, gated, gated_halves
from gpuscope.program.models.parallel.size import Experts, TransformerSize


class ExpertMatrices(nn.Module):
    """The feed-forward parts of several experts, each a slice of the same tensors.

    Args:
        size: the model.
        experts: how many and how wide.
        grouped: one kernel for all of them, instead of a loop.
        cast: multiply in float8 (grouped only).
        fused: the activation with its gate is one kernel.
        joined: gate and up are one product (grouped only).
    """

    def __init__(
        self,
        size: TransformerSize,
        experts: Experts,
        *,
        grouped: bool,
        cast: bool = False,
        fused: bool = False,
        joined: bool = False,
    ) -> None:
        super().__init__()
        self.activation, self.grouped = size.activation, grouped
        self.joined = joined and grouped and size.gated
        self.product = cast_grouped if cast else _in_dtype
        self.gated = one_kernel(gated, fused and size.gated)
        self.gated_halves = one_kernel(gated_halves, fused and self.joined)
        self.act = one_kernel(ACTIVATION[size.activation], fused and size.activation == "relu2")
        wide = 2 * experts.ffn if self.joined else experts.ffn
        self.up = nn.Parameter(torch.empty(experts.count, size.hidden, wide))
        self.gate = None
        if size.gated and not self.joined:
            self.gate = nn.Parameter(torch.empty(experts.count, size.hidden, experts.ffn))
        self.down = nn.Parameter(torch.empty(experts.count, experts.ffn, size.hidden))
        for matrix in (self.up, self.gate, self.down):
            if matrix is not None:
                nn.init.normal_(matrix, std=0.02)

    def forward(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Tokens (n, hidden) sorted by expert, and how many each expert gets -> (n, hidden)."""
        act = ACTIVATION[self.activation]
        gate = None if self.gate is None else local_part(self.gate)
        up, down = local_part(self.up), local_part(self.down)
        if self.grouped:
            ends = counts.cumsum(0).to(torch.int32)
            inner = self.product(tokens, up, ends)
            if self.joined:
                inner = self.gated_halves(inner, act)
            elif gate is not None:
                inner = self.gated(self.product(tokens, gate, ends), inner, act)
            else:
                inner = self.act(inner)
            return self.product(inner, down, ends)
        parts = []
        for number, part in enumerate(torch.split(tokens, counts.tolist())):
            inner = part @ up[number]
            inner = act(inner) if gate is None else act(part @ gate[number]) * inner
            parts.append(inner @ down[number])
        return torch.cat(parts)


def _in_dtype(x: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return F.grouped_mm(x, matrices, offs=ends)


def local_part(matrix: torch.Tensor) -> torch.Tensor:
    """This rank's experts, where they are spread over ranks."""
    local: torch.Tensor = matrix.to_local() if hasattr(matrix, "to_local") else matrix
    return local
