"""Products of 8-bit integers: weights quantised once, inputs row by row.

Tensor cores multiply 8-bit integers at twice the rate of bfloat16 (NVIDIA, H100 datasheet, 2023).
Quantising the inputs costs two passes over them; it pays for many rows, not for one.
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

__all__ = ["DynamicInt8"]


class DynamicInt8(Change):
    """Multiply integers."""

    name = "dynamic-int8"
    title = Words("8-bit products, inputs quantised as they come", "8 位整数矩阵乘（动态量化）")
    group = "inference"
    numerics = "int8"
    excludes = QUANTIZED - {"dynamic-int8"}
    rank = 26

    def fits(self, case: Case) -> Fit:
        """It needs inference on a device with 8-bit products."""
        refused, rows = inference_products(case)
        if refused is not None:
            return refused
        if not case.device.supports("int8"):
            name = case.device.name
            return Fit(False, Words(f"{name} has no int8.", f"{name} 没有 int8。"))
        return Fit(
            True,
            Words(
                f"Products of {rows} rows run in floating point.", f"{rows} 行的矩阵乘用浮点计算。"
            ),
        )

    def install(self, live: Live) -> None:
        """Replace linear layers."""
        quantize(live, "DynamicInt8")

    def risk(self, case: Case) -> Words:
        """Rounded weights."""
        return Words(
            "Weights and inputs are rounded to 8 bits; outliers suffer.",
            "权重与输入都舍入到 8 位；离群值受损。",
        )


register(DynamicInt8())
