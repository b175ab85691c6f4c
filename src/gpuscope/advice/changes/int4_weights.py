"""Weights of linear layers in 4 bits: a quarter of the bytes that a decoding step reads.

PyTorch's own kernel (`aten::_weight_int4pack_mm`, from gpt-fast, 2023) widens them while it
multiplies, so it needs no compiler; groups of 128 weights share a scale and a zero.
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

__all__ = ["Int4Weights"]


class Int4Weights(Change):
    """Store half a byte a weight."""

    name = "int4-weights"
    title = Text("weights in 4 bits")
    group = "inference"
    numerics = "int4"
    excludes = QUANTIZED - {"int4-weights"}
    rank = 26

    def fits(self, case: ChangeCase) -> Fit:
        """It needs inference in bfloat16 with few rows."""
        refused, rows = inference_products(case)
        if refused is not None:
            return refused
        if rows > 16:
            why = Text(
                "Products have {rows} rows: they are bound by computing, not by reading weights.",
                rows=rows,
            )
            return Fit(False, why)
        dtypes = {d for m in (case.seen.models if case.seen else ()) for d in m.dtypes}
        if "bfloat16" not in dtypes:
            return Fit(False, Text("The weights are not bfloat16."))
        return Fit(True, Text("Each step reads all weights once, two bytes each."))

    def install(self, live: Live) -> None:
        """Replace linear layers."""
        quantize(live, "Int4Weights")

    def risk(self, case: ChangeCase) -> Text:
        """Rounded weights."""
        return Text("Weights are rounded to 4 bits: check the quality of what it writes.")


register(Int4Weights())
