"""Products of 8-bit integers: weights quantised once, inputs row by row.

Tensor cores multiply 8-bit integers at twice the rate of bfloat16 (NVIDIA, H100 datasheet, 2023).
Quantising the inputs costs two passes over them; it pays for many rows, not for one.
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

__all__ = ["DynamicInt8"]


class DynamicInt8(Change):
    """Multiply integers."""

    name = "dynamic-int8"
    title = Text("8-bit products, inputs quantised as they come")
    group = "inference"
    numerics = "int8"
    excludes = QUANTIZED - {"dynamic-int8"}
    rank = 26

    def fits(self, case: ChangeCase) -> Fit:
        """It needs inference on a device with 8-bit products."""
        refused, rows = inference_products(case)
        if refused is not None:
            return refused
        if not case.device.supports("int8"):
            name = case.device.name
            return Fit(False, Text("{name} has no int8.", name=name))
        return Fit(True, Text("Products of {rows} rows run in floating point.", rows=rows))

    def install(self, live: Live) -> None:
        """Replace linear layers."""
        quantize(live, "DynamicInt8")

    def risk(self, case: ChangeCase) -> Text:
        """Rounded weights."""
        return Text("Weights and inputs are rounded to 8 bits; outliers suffer.")


register(DynamicInt8())
