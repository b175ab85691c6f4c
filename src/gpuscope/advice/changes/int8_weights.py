"""Weights of linear layers in 8 bits: half the bytes that a decoding step reads.

Symmetric, one scale a row (Dettmers et al., "LLM.int8()", 2022, section 2). The gain is that of
memory: it needs one row and a compiled model, where the compiler widens weights in the loop that
reads them; run eagerly, or with more rows, whole bfloat16 weights are written and read again.
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

__all__ = ["Int8Weights"]


class Int8Weights(Change):
    """Store a byte a weight."""

    name = "int8-weights"
    title = Words("weights in 8 bits", "权重量化为 8 位")
    group = "inference"
    numerics = "int8"
    excludes = QUANTIZED - {"int8-weights"}
    rank = 26

    def fits(self, case: Case) -> Fit:
        """It needs inference; more than a few rows are bound by computing."""
        refused, rows = inference_products(case)
        if refused is not None:
            return refused
        if rows > 1:
            why = Words(
                f"Products have {rows} rows: the weights would be made whole again each time.",
                f"矩阵乘有 {rows} 行：每次都要还原成完整权重。",
            )
            return Fit(False, why)
        return Fit(
            True,
            Words(
                "Each step reads all weights once, two bytes or more each; 8 bits help where the"
                " model is compiled, and hurt where it is not.",
                "每步把全部权重各读一次，每个至少两字节；编译后 8 位有益，未编译则有害。",
            ),
        )

    def install(self, live: Live) -> None:
        """Replace linear layers."""
        quantize(live, "Int8Weights")

    def risk(self, case: Case) -> Words:
        """Rounded weights."""
        return Words(
            "Weights are rounded to 8 bits: check the quality of what it writes.",
            "权重舍入到 8 位：请检验输出质量。",
        )


register(Int8Weights())
