"""Inference mode: forward passes that record nothing for a backward pass that never comes.

`torch.inference_mode` (PyTorch, "Autograd mechanics"): no autograd nodes, no version counters; and
what would have been kept for the backward pass is freed at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.places import step_of
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Edit, Fit, Seen
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["InferenceMode"]


class InferenceMode(Change):
    """Run each step under `torch.inference_mode`."""

    name = "inference-mode"
    title = Words("inference mode", "推理模式（inference_mode）")
    group = "inference"
    numerics = "exact"
    needs_gpu = False
    rank = 20

    def fits(self, case: Case) -> Fit:
        """It needs forward passes that are recorded for autograd, and no backward pass."""
        if case.program is None:
            why = Words("A recording does not show it.", "记录里看不到这一点。")
            return Fit(False, why, relevant=False)
        training = any(op.phase in ("backward", "optimizer") for op in case.program.ops)
        if training or (case.seen is not None and case.seen.optimizers):
            return Fit(False, Words("This is training.", "这是训练。"), relevant=False)
        recorded = sum(op.autograd for op in case.program.ops)
        if not recorded:
            why = Words("Nothing is recorded for gradients already.", "已经不记录梯度。")
            return Fit(False, why, relevant=False)
        return Fit(
            True,
            Words(
                f"{recorded} operators are recorded for a backward pass that never comes.",
                f"{recorded} 个算子为从不执行的反向传播做了记录。",
            ),
        )

    def install(self, live: Live) -> None:
        """Enter it around each step."""
        import torch

        live.around_step(torch.inference_mode)

    def risk(self, case: Case) -> Words | None:
        """Tensors made in it."""
        return Words(
            "Results cannot be used in a backward pass later.", "结果之后不能再用于反向传播。"
        )

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """A decorator on the step that `build` returns."""
        text = sources.get(seen.file)
        if text is None or not seen.function:
            return None
        step = step_of(text, seen.function)
        if step is None:
            return None
        decorator = f"{' ' * step.col_offset}@torch.inference_mode()\n"
        line = min([step.lineno, *(d.lineno for d in step.decorator_list)])
        return (Edit(seen.file, line, line - 1, decorator, needs=("import torch",)),)


register(InferenceMode())
