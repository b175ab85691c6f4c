"""Weights of linear layers in 8 bits: half the bytes that a decoding step reads.

Symmetric, one scale a row (Dettmers et al., "LLM.int8()", 2022, section 2). The gain is that of
memory: it needs one row and a compiled model, where the compiler widens weights in the loop that
reads them; run eagerly, or with more rows, whole bfloat16 weights are written and read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.quantization import QUANTIZED, inference_products, quantize
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["Int8Weights"]


class Int8Weights(Change):
    """Store a byte a weight."""

    name = "int8-weights"
    title = Text("weights in 8 bits")
    group = "inference"
    numerics = "int8"
    excludes = QUANTIZED - {"int8-weights"}
    rank = 26

    def fits(self, case: ChangeCase) -> Fit:
        """It needs inference; more than a few rows are bound by computing."""
        refused, rows = inference_products(case)
        if refused is not None:
            return refused
        if rows > 1:
            why = Text(
                "Products have {rows} rows: the weights would be made whole again each time.",
                rows=rows,
            )
            return Fit(False, why)
        return Fit(
            True,
            Text(
                "Each step reads all weights once, two bytes or more each; 8 bits help where the "
                "model is compiled, and hurt where it is not."
            ),
        )

    def install(self, live: Live) -> None:
        """Replace linear layers."""
        quantize(live, "Int8Weights")

    def risk(self, case: ChangeCase) -> Text:
        """Rounded weights."""
        return Text("Weights are rounded to 8 bits: check the quality of what it writes.")


register(Int8Weights())
