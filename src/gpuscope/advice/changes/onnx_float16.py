"""A graph in half precision: weights and activations of 16 bits, products on tensor cores.

ONNX Runtime computes in the types that the file has, so the file is converted
(`onnxruntime.transformers.float16`); TensorRT chooses by layer where it is allowed
(NVIDIA, "TensorRT Developer Guide", "Reduced Precision").
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

__all__ = ["Float16"]

_CONVERT = (
    'python -c "import onnx, onnxruntime.transformers.float16 as f; m = '
    "f.convert_float_to_float16(onnx.load('{path}'), keep_io_types=True); "
    "onnx.save(m, '{stem}.fp16.onnx')\""
)


class Float16(OnnxChange):
    """Compute float32 in float16."""

    name = "onnx-float16"
    title = Text("the graph in float16")
    group = "precision"
    numerics = "fp16"
    excludes = frozenset({"onnx-bfloat16", "onnx-int8"})

    def fits(self, case: ChangeCase) -> Fit:
        """It needs float32 in the graph, and a device with float16."""
        return float32_products(case, "float16")

    def changed(self, build: OnnxBuild) -> OnnxBuild:
        """The same nodes on halves."""
        return replace(build, real="float16")

    def typed(self, case: ChangeCase) -> Text | None:
        """Convert the file, or let the builder."""
        build = case.onnx
        if build is None:
            return None
        command = _CONVERT.format(path=build.path, stem=build.path.stem)
        return Text(
            "ONNX Runtime: {command}. TensorRT: trtexec --onnx={path} --fp16",
            command=command,
            path=build.path,
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """Range."""
        return Text("Values above 65,504 overflow: compare the outputs on your own data.")


register(Float16())
