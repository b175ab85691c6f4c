"""Cross-entropy over a large vocabulary, some rows at a time, its gradient made on the way.

Eager PyTorch keeps the logits, their float32 copy, log-probabilities and the gradient, each of the
logits' size. Here only logits and their gradient live; the float32 parts are as large as one chunk
(Hsu et al., "Liger Kernel", 2024, section 3.2, makes the gradient in the forward pass likewise).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["LEAST_ELEMENTS", "causal_loss", "chunked_cross_entropy"]

LEAST_ELEMENTS = 2**24
"""Smaller logits are not worth it: their copies are small, and each chunk costs launches."""

CHUNK_ELEMENTS = 2**25
"""Logits of a chunk: 128 MiB in float32, still large enough to fill any device."""


class _Chunked(torch.autograd.Function):
    """Sum or mean of the losses of rows; the gradient is kept in the logits' dtype."""

    @staticmethod
    def forward(ctx: Any, logits: Any, target: Any, ignore: int, rows: int, mean: bool) -> Any:
        gradient = torch.empty_like(logits)
        total = logits.new_zeros((), dtype=torch.float32)
        for begin in range(0, logits.shape[0], rows):
            part, wanted = logits[begin : begin + rows], target[begin : begin + rows]
            kept = wanted != ignore
            column = wanted.clamp(min=0).unsqueeze(1)
            log_p = torch.log_softmax(part, dim=-1, dtype=torch.float32)
            total -= (log_p.gather(1, column).squeeze(1) * kept).sum()
            p = log_p.exp_()
            p.scatter_add_(1, column, torch.full_like(column, -1.0, dtype=p.dtype))
            gradient[begin : begin + rows] = p.mul_(kept.unsqueeze(1))
            del log_p, p  # before the next chunk takes memory
        count = (target != ignore).sum() if mean else None
        ctx.gradient, ctx.count = gradient, count
        return total if count is None else total / count

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.gradient is None:
            raise RuntimeError("The chunked loss can be differentiated once only.")
        gradient, ctx.gradient = ctx.gradient, None
        scale = grad if ctx.count is None else grad / ctx.count.clamp(min=1)
        return gradient.mul_(scale), None, None, None, None


def chunked_cross_entropy(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.nn.functional.cross_entropy`, in chunks where that is worth it.

    Args:
        original: called where it is not: small, weighted or smoothed losses, class probabilities,
            spatial outputs, losses of every row.
    """

    @functools.wraps(original)
    def cross_entropy(
        input: Any,
        target: Any,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Any:
        plain = weight is None and size_average is None and reduce is None and not label_smoothing
        if not (plain and reduction in ("mean", "sum") and _worth_it(input, target)):
            return original(
                input,
                target,
                weight,
                size_average,
                ignore_index,
                reduce,
                reduction,
                label_smoothing,
            )
        rows = max(1, CHUNK_ELEMENTS // input.shape[1])
        apply: Any = _Chunked.apply
        return apply(input, target, ignore_index, rows, reduction == "mean")

    return cross_entropy


def _worth_it(logits: Any, target: Any) -> bool:
    return (
        logits.dim() == 2
        and target.dim() == 1
        and target.dtype == torch.int64
        and logits.is_floating_point()
        and logits.requires_grad
        and torch.is_grad_enabled()
        and logits.numel() >= LEAST_ELEMENTS
    )


def causal_loss(
    logits: Any,
    labels: Any,
    vocab_size: int,
    num_items_in_batch: Any = None,
    ignore_index: int = -100,
    shift_labels: Any = None,
    **_: Any,
) -> Any:
    """The loss that transformers takes of causal models, without a float32 copy of all logits."""
    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    target = shift_labels.reshape(-1).to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    # Looked up when called: the chunked form, while the change is at work.
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, vocab_size), target, ignore_index=ignore_index, reduction=reduction
    )
    return loss if num_items_in_batch is None else loss / num_items_in_batch
