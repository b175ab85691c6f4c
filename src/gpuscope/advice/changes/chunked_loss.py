"""The loss over a large vocabulary in chunks: less memory, and fewer passes over the logits.

See `gpuscope.advice.chunked_loss` for how, and what it saves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import NO_CODE, Case, Fit
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["ChunkedLoss"]

_WHOLE_COMPILED = frozenset(
    {
        "compile", "compile-max-autotune", "compile-reduce-overhead", "compile-unmasked",
        "compile-unmasked-graphs",
    }
)  # fmt: skip
"""With these the compiler fuses the loss itself."""


class ChunkedLoss(Change):
    """Take cross-entropy over some rows at a time."""

    name = "chunked-loss"
    title = Words("the loss in chunks", "分块计算损失")
    group = "operators"
    numerics = "reordered"
    excludes = _WHOLE_COMPILED
    rank = 40

    def fits(self, case: Case) -> Fit:
        """It needs large logits under an eager cross-entropy."""
        from gpuscope.advice.chunked_loss import LEAST_ELEMENTS

        if case.program is None:
            return NO_CODE
        found = [
            op.outputs[0] for op in case.program.ops
            if op.name == "aten::_log_softmax" and op.phase == "forward" and op.autograd
            and not op.region and len(op.outputs[0].shape) == 2
            and op.outputs[0].numel >= LEAST_ELEMENTS
        ]  # fmt: skip
        if not found:
            why = Words("No loss is taken over large logits.", "没有对大 logits 求损失。")
            return Fit(False, why, relevant=False)
        rows, columns = found[0].shape
        size = f"{found[0].nbytes / 2**30:.2g} GiB"
        return Fit(
            True,
            Words(
                f"The loss of {rows:,} rows over {columns:,} classes keeps {size} more than once.",
                f"{rows:,} 行、{columns:,} 类的损失把 {size} 保存了不止一份。",
            ),
        )

    def install(self, live: Live) -> None:
        """Put the chunked form in the place of PyTorch's, and of what transformers takes."""
        import torch

        from gpuscope.advice.chunked_loss import causal_loss, chunked_cross_entropy

        functional = torch.nn.functional
        live.set(functional, "cross_entropy", chunked_cross_entropy(functional.cross_entropy))

        def edit(model: Any) -> None:
            for module in model.modules():
                told = getattr(module, "loss_function", None)
                if getattr(told, "__name__", "") == "ForCausalLMLoss":
                    module.loss_function = causal_loss

        live.on_model(edit)


register(ChunkedLoss())
