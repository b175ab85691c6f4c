"""Steps of a decoder that Megatron-LM runs as one kernel each: compiled functions here.

Rotary positions (`apply_rope_fusion`), an activation with its gate (`bias_swiglu_fusion`), and the
order of tokens before and after experts (`moe_permute_fusion`), whose gradients are gathered too
instead of being added up row by row with atomic operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Step = TypeVar("Step", bound=Callable[..., Any])


def one_kernel(step: Step, fused: bool) -> Step:
    """The step as a compiled function, or as it is."""
    return torch.compile(step) if fused else step  # type: ignore[return-value]


def order_back(order: torch.Tensor) -> torch.Tensor:
    """Where each row of the original lies among the sorted ones: the inverse permutation."""
    places = torch.arange(order.shape[0], device=order.device)
    return torch.empty_like(order).scatter_(0, order, places)


def _gathered_sum(rows: torch.Tensor, back: torch.Tensor, chosen: int) -> torch.Tensor:
    summed: torch.Tensor = rows[back].view(-1, chosen, rows.shape[-1]).sum(1)
    return summed


def _weighted_sum(rows: torch.Tensor, back: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    taken = rows[back].view(*weights.shape, rows.shape[-1])
    summed: torch.Tensor = (taken * weights.unsqueeze(-1).to(rows.dtype)).sum(1)
    return summed


def _gradient_of_rows(
    grad: torch.Tensor, source: torch.Tensor, order: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    return grad[source] * weights.flatten()[order].unsqueeze(-1).to(grad.dtype)


def _gradient_of_weights(
    grad: torch.Tensor, rows: torch.Tensor, back: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    taken = rows[back].view(*weights.shape, rows.shape[-1])
    summed: torch.Tensor = (taken * grad.unsqueeze(1)).sum(-1)
    return summed.to(weights.dtype)


class Spread(torch.autograd.Function):
    """Every token copied once for each of its experts, sorted by expert."""

    @staticmethod
    def forward(
        ctx: Any, tokens: torch.Tensor, order: torch.Tensor, back: torch.Tensor, chosen: int
    ) -> torch.Tensor:
        """(tokens, hidden) -> (tokens x chosen, hidden)."""
        ctx.save_for_backward(back)
        ctx.chosen = chosen
        return tokens[order // chosen]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        """Each token's gradients, gathered and added up."""
        (back,) = ctx.saved_tensors
        return one_kernel(_gathered_sum, True)(grad, back, ctx.chosen), None, None, None


class Collect(torch.autograd.Function):
    """The weighted sum of each token's experts, from rows sorted by expert."""

    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, weights: torch.Tensor, order: torch.Tensor, back: torch.Tensor
    ) -> torch.Tensor:
        """(tokens x chosen, hidden), (tokens, chosen) -> (tokens, hidden)."""
        ctx.save_for_backward(rows, weights, order, back)
        return one_kernel(_weighted_sum, True)(rows, back, weights)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        """Of the rows, and of the weights."""
        rows, weights, order, back = ctx.saved_tensors
        source = order // weights.shape[1]
        of_rows = one_kernel(_gradient_of_rows, True)(grad, source, order, weights)
        of_weights = one_kernel(_gradient_of_weights, True)(grad, rows, back, weights)
        return of_rows, of_weights, None, None


class Reorder(torch.autograd.Function):
    """Rows in another order; each is taken once."""

    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, order: torch.Tensor, back: torch.Tensor
    ) -> torch.Tensor:
        """(rows, hidden) -> the same rows as `order` says."""
        ctx.save_for_backward(back)
        return rows[order]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """The same rows in the order before."""
        (back,) = ctx.saved_tensors
        return grad[back], None, None
