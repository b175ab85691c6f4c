"""A mixture of experts: a router, and experts whose tokens may be on other ranks."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

from gpuscope.program.models.networks.biased_experts import BiasedExperts
from gpuscope.program.models.networks.expert_matrices import ExpertMatrices
from gpuscope.program.models.networks.fused_steps import Collect, Spread, order_back
from gpuscope.program.models.networks.transformer_parts import FeedForward
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
        matrices = BiasedExperts if size.mlp_bias else ExpertMatrices
        self.experts = matrices(
            size,
            experts,
            grouped=software.grouped_experts,
            cast=software.matmul != "compute",
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
