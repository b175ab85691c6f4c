"""Products and convolutions of 8-bit integers: a graph with quantize and dequantize pairs.

TensorRT multiplies integers between such pairs (its guide, "Working with Quantized Types"). ONNX
Runtime's CUDA provider does not: it computes a dequantized product in the real type
(github.com/microsoft/onnxruntime/issues/24807), so that the graph runs in TensorRT.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.changes.evidence.graphs import float32_products
from gpuscope.advice.doors import OnnxChange
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text, plural
from gpuscope.program.onnx.engines import engine_named
from gpuscope.program.onnx.quantizing import quantizable, quantized

if TYPE_CHECKING:
    from gpuscope.program.onnx.workload import OnnxBuild

__all__ = ["Int8"]


class Int8(OnnxChange):
    """Quantize weights and what they are multiplied with."""

    name = "onnx-int8"
    title = Text("products of 8-bit integers, in TensorRT")
    group = "precision"
    numerics = "int8"
    excludes = frozenset({"onnx-float16", "onnx-bfloat16"})
    rank = 30

    def fits(self, case: ChangeCase) -> Fit:
        """It needs products with weights in float32, and a device that multiplies integers."""
        fit = float32_products(case, "int8")
        if not fit.applies or case.onnx is None:
            return fit
        count = len(quantizable(case.onnx.model))
        if not count:
            return Fit(False, Text("No product or convolution has a weight to quantize."))
        return Fit(
            True,
            plural(
                "{count} product or convolution has a weight that can be quantized.",
                "{count} products and convolutions have a weight that can be quantized.",
                count,
            ),
        )

    def changed(self, build: OnnxBuild) -> OnnxBuild:
        """The graph that a static quantization makes; what stays real is in float16."""
        return replace(
            build, model=quantized(build.model), engine=engine_named("tensorrt"), real="float16"
        )

    def typed(self, case: ChangeCase) -> Text | None:
        """Quantize with samples of your own, then build."""
        stem = "" if case.onnx is None else case.onnx.path.stem
        options = "{'ActivationSymmetric': True, 'WeightSymmetric': True}"
        return Text(
            "onnxruntime.quantization.{call}, then: trtexec --onnx={stem}.int8.onnx --int8 --fp16",
            call=f'quantize_static("{stem}.onnx", "{stem}.int8.onnx", READER_OF_YOUR_SAMPLES, '
            f"extra_options={options})",
            stem=stem,
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """Accuracy."""
        return Text("Accuracy depends on the samples it is calibrated with: measure it.")


register(Int8())
