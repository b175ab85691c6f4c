"""Products of one row as reductions that the compiler generates, instead of a library's product.

A product of a matrix and one vector is bound by memory: the best kernel is one that reads the
weights once at full bandwidth. Inductor turns such products into a reduction where
`torch._inductor.config.coordinate_descent_tuning` is set, and tunes its blocks
(torch/_inductor/decomposition.py: "our matrix vector multiplies only achieve peak bandwidth with
coordinate descent tuning"); what comes before and after is fused with it. gpt-fast reports
(PyTorch, "Accelerating Generative AI Part 2", 2023) 104 tokens/s for Llama-2-7B so, on an A100.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.decoding import rows_per_product
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["CompiledGemv"]


class CompiledGemv(Change):
    """Let the compiler write products of one row."""

    name = "compiled-gemv"
    title = Text("products of one row by the compiler")
    group = "inference"
    compiles = True
    numerics = "reordered"
    rank = 30

    def fits(self, case: ChangeCase) -> Fit:
        """It needs inference with one row, compiled (now or together with this)."""
        if case.program is None or case.training:
            return Fit(False, Text("Only for inference."), relevant=False)
        rows = rows_per_product(case.program)
        if rows != 1:
            why = Text("Products have several rows.")
            return Fit(False, why, relevant=False)
        return Fit(
            True,
            Text(
                "Each product multiplies a matrix with one row; it acts only together with "
                "compilation."
            ),
        )

    def install(self, live: Live) -> None:
        """Set the compiler's switch; under a capture, write down what the compiler makes of it."""
        import torch
        import torch._inductor.config as config

        live.set(config, "coordinate_descent_tuning", True)
        usual = torch.nn.functional.linear

        def linear(x: Any, weight: Any, bias: Any = None) -> Any:
            one_row = x.numel() == x.shape[-1] and weight.dim() == 2
            if not (live.pretended and torch.compiler.is_compiling() and one_row):
                return usual(x, weight, bias)
            out = (x.unsqueeze(-2) * weight).sum(-1)
            return out if bias is None else out + bias

        if live.pretended:
            live.set(torch.nn.functional, "linear", linear)

    def price(self, case: ChangeCase) -> Text:
        """Tuning."""
        return Text("A minute or more of tuning when it is compiled.")


register(CompiledGemv())
