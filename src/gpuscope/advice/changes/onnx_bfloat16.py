"""A graph in bfloat16: the range of float32 in 16 bits. TensorRT's alone.

ONNX Runtime's CUDA provider has no bfloat16 kernel for most operators (onnxruntime,
docs/OperatorKernels.md); TensorRT has, from 9.0 on (`--bf16`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.changes.evidence.graphs import float32_products
from gpuscope.advice.doors import OnnxChange
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.program.onnx.workload import OnnxBuild

__all__ = ["BFloat16"]


class BFloat16(OnnxChange):
    """Compute float32 in bfloat16."""

    name = "onnx-bfloat16"
    title = Text("the graph in bfloat16, in TensorRT")
    group = "precision"
    numerics = "bf16"
    excludes = frozenset({"onnx-float16", "onnx-int8"})

    def fits(self, case: ChangeCase) -> Fit:
        """It needs float32 in the graph, a device with bfloat16, and TensorRT."""
        if case.onnx is not None and case.onnx.engine.name != "tensorrt":
            return Fit(
                False,
                Text(
                    "{engine} computes few operators in bfloat16; TensorRT does: --engine tensorrt",
                    engine=case.onnx.engine.called,
                ),
            )
        return float32_products(case, "bfloat16")

    def changed(self, build: OnnxBuild) -> OnnxBuild:
        """The same nodes on bfloat16."""
        return replace(build, real="bfloat16")

    def typed(self, case: ChangeCase) -> Text | None:
        """The builder is allowed to."""
        path = "" if case.onnx is None else str(case.onnx.path)
        return Text("trtexec --onnx={path} --bf16", path=path)


register(BFloat16())
