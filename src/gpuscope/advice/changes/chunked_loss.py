"""The loss over a large vocabulary in chunks: less memory, and fewer passes over the logits.

See `gpuscope.advice.changes.transforms.chunked_cross_entropy` for how, and what it saves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import NO_CODE, ChangeCase, Fit
from gpuscope.document.quantities import Bytes, Number
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["ChunkedLoss"]

_WHOLE_COMPILED = frozenset(
    {
        "compile",
        "compile-max-autotune",
        "compile-reduce-overhead",
        "compile-unmasked",
        "compile-unmasked-graphs",
    }
)
"""With these the compiler fuses the loss itself."""


class ChunkedLoss(Change):
    """Take cross-entropy over some rows at a time."""

    name = "chunked-loss"
    title = Text("the loss in chunks")
    group = "operators"
    numerics = "reordered"
    excludes = _WHOLE_COMPILED
    rank = 40

    def fits(self, case: ChangeCase) -> Fit:
        """It needs large logits under an eager cross-entropy."""
        from gpuscope.advice.changes.transforms.chunked_cross_entropy import LEAST_ELEMENTS

        if case.program is None:
            return NO_CODE
        found = [
            op.outputs[0]
            for op in case.program.ops
            if op.name == "aten::_log_softmax"
            and op.phase == "forward"
            and op.autograd
            and not op.region
            and len(op.outputs[0].shape) == 2
            and op.outputs[0].numel >= LEAST_ELEMENTS
        ]
        if not found:
            why = Text("No loss is taken over large logits.")
            return Fit(False, why, relevant=False)
        rows, columns = found[0].shape
        size = Bytes(found[0].nbytes)
        return Fit(
            True,
            Text(
                "The loss of {rows} rows over {columns} classes keeps {size} more than once.",
                rows=Number(rows, ","),
                columns=Number(columns, ","),
                size=size,
            ),
        )

    def install(self, live: Live) -> None:
        """Put the chunked form in the place of PyTorch's, and of what transformers takes."""
        import torch

        from gpuscope.advice.changes.transforms.chunked_cross_entropy import (
            causal_loss,
            chunked_cross_entropy,
        )

        functional = torch.nn.functional
        live.set(functional, "cross_entropy", chunked_cross_entropy(functional.cross_entropy))

        def edit(model: Any) -> None:
            for module in model.modules():
                given = getattr(module, "loss_function", None)
                if getattr(given, "__name__", "") == "ForCausalLMLoss":
                    module.loss_function = causal_loss

        live.on_model(edit)


register(ChunkedLoss())
