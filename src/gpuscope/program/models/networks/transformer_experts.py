"""A mixture of experts: a router, and experts whose tokens may be on other ranks."""

from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.networks.cast_linear import cast_grouped
from gpuscope.program.models.networks.fused_steps import Collect, Spread, one_kernel, order_back
from gpuscope.program.models.networks.transformer_parts import (
    ACTIVATION,
    FeedForward,
    gated,
    gated_halves,
)
from gpuscope.program.models.parallel.options import Software
from gpuscope.program.models.parallel.size import Experts, TransformerSize


class Exchange(Protocol):
    """Brings tokens to the ranks of their experts, and the results back."""

    def there(
        self, tokens: torch.Tensor, counts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, object]:
        """Tokens sorted by expert, and how many each expert gets -> the same for the experts of
        this rank, and what `back` needs."""

    def back(self, tokens: torch.Tensor, route: object) -> torch.Tensor:
        """Results in the order of the tokens that came -> in the order of those that went."""


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
        gate = None if self.gate is None else _local(self.gate)
        up, down = _local(self.up), _local(self.down)
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


def _local(matrix: torch.Tensor) -> torch.Tensor:
    """This rank's experts, where they are spread over ranks."""
    local: torch.Tensor = matrix.to_local() if hasattr(matrix, "to_local") else matrix
    return local


class MixtureOfExperts(nn.Module):
    """Every token goes to its best experts (Shazeer et al. 2017), and to the shared one.

    Attributes:
        exchange: how tokens reach experts on other ranks; None where all experts are here.
    """

    def __init__(self, size: TransformerSize, software: Software, experts: Experts) -> None:
        super().__init__()
        self.count, self.chosen = experts.count, experts.chosen
        self.exchange: Exchange | None = None
        self.fused = software.fused_steps
        self.router = nn.Linear(size.hidden, experts.count, bias=False)
        self.experts = ExpertMatrices(
            size,
            experts,
            grouped=software.grouped_experts,
            cast=software.matmul == "float8",
            fused=software.fused_steps,
            joined=software.fused_projections,
        )
        self.shared = None
        if experts.shared_ffn:
            self.shared = FeedForward(size, software, experts.shared_ffn)
        self.shared_gate = nn.Linear(size.hidden, 1, bias=False) if experts.shared_gate else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(sequences, tokens, hidden) -> the same."""
        flat = x.flatten(0, 1)
        weights, chosen = self.router(flat).float().softmax(dim=-1).topk(self.chosen, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.histc(chosen.flatten().float(), bins=self.count, min=0, max=self.count - 1)
        counts = counts.to(torch.int64)
        if self.fused:
            back = order_back(order)
            worked = self._worked(_spread(flat, order, back, self.chosen), counts)
            out = _collected(worked, weights, order, back)
        else:
            source = order // self.chosen
            worked = self._worked(flat[source], counts)
            worked = worked * weights.flatten()[order].to(worked.dtype).unsqueeze(-1)
            out = torch.zeros_like(flat).index_add(0, source, worked)
        if self.shared is not None:
            always = self.shared(flat)
            if self.shared_gate is not None:
                always = always * self.shared_gate(flat).sigmoid()
            out = out + always
        return out.view_as(x)

    def _worked(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """What the experts make of tokens sorted by expert, wherever they are."""
        if self.exchange is None:
            done: torch.Tensor = self.experts(tokens, counts)
            return done
        come, here, route = self.exchange.there(tokens, counts)
        return self.exchange.back(self.experts(come, here), route)


def _spread(*inputs: Any) -> torch.Tensor:
    copied: torch.Tensor = Spread.apply(*inputs)  # type: ignore[no-untyped-call]
    return copied


def _collected(*inputs: Any) -> torch.Tensor:
    summed: torch.Tensor = Collect.apply(*inputs)  # type: ignore[no-untyped-call]
    return summed
