"""Inference mode: forward passes that record nothing for a backward pass that never comes.

`torch.inference_mode` (PyTorch, "Autograd mechanics"): no autograd nodes, no version counters; and
what would have been kept for the backward pass is freed at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.source.places import step_of
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["InferenceMode"]


class InferenceMode(Change):
    """Run each step under `torch.inference_mode`."""

    name = "inference-mode"
    title = Text("inference mode")
    group = "inference"
    numerics = "exact"
    needs_gpu = False
    rank = 20

    def fits(self, case: ChangeCase) -> Fit:
        """It needs forward passes that are recorded for autograd, and no backward pass."""
        if case.program is None:
            why = Text("A recording does not show it.")
            return Fit(False, why, relevant=False)
        training = any(op.phase in ("backward", "optimizer") for op in case.program.ops)
        if training or (case.seen is not None and case.seen.optimizers):
            return Fit(False, Text("This is training."), relevant=False)
        recorded = sum(op.autograd for op in case.program.ops)
        if not recorded:
            why = Text("Nothing is recorded for gradients already.")
            return Fit(False, why, relevant=False)
        return Fit(
            True,
            Text(
                "{recorded} operators are recorded for a backward pass that never comes.",
                recorded=recorded,
            ),
        )

    def install(self, live: Live) -> None:
        """Enter it around each step."""
        import torch

        live.around_step(torch.inference_mode)

    def risk(self, case: ChangeCase) -> Text | None:
        """Tensors made in it."""
        return Text("Results cannot be used in a backward pass later.")

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
