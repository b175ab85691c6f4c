"""Weights of linear layers in 4 bits: a quarter of the bytes that a decoding step reads.

PyTorch's own kernel (`aten::_weight_int4pack_mm`, from gpt-fast, 2023) widens them while it
multiplies, so it needs no compiler; groups of 128 weights share a scale and a zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.quantizing import QUANTIZED, inference_products, quantize
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["Int4Weights"]


class Int4Weights(Change):
    """Store half a byte a weight."""

    name = "int4-weights"
    title = Words("weights in 4 bits", "权重量化为 4 位")
    group = "inference"
    numerics = "int4"
    excludes = QUANTIZED - {"int4-weights"}
    rank = 26

    def fits(self, case: Case) -> Fit:
        """It needs inference in bfloat16 with few rows."""
        refused, rows = inference_products(case)
        if refused is not None:
            return refused
        if rows > 16:
            why = Words(
                f"Products have {rows} rows: they are bound by computing, not by reading weights.",
                f"矩阵乘有 {rows} 行：受限于计算而非读权重。",
            )
            return Fit(False, why)
        dtypes = {d for m in (case.seen.models if case.seen else ()) for d in m.dtypes}
        if "bfloat16" not in dtypes:
            return Fit(False, Words("The weights are not bfloat16.", "权重不是 bfloat16。"))
        return Fit(
            True,
            Words(
                "Each step reads all weights once, two bytes each.",
                "每步把全部权重各读一次，每个两字节。",
            ),
        )

    def install(self, live: Live) -> None:
        """Replace linear layers."""
        quantize(live, "Int4Weights")

    def risk(self, case: Case) -> Words:
        """Rounded weights."""
        return Words(
            "Weights are rounded to 4 bits: check the quality of what it writes.",
            "权重舍入到 4 位：请检验输出质量。",
        )


register(Int4Weights())
