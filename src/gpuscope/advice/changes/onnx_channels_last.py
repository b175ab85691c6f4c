"""Convolutions on NHWC: the layout that tensor cores read, without turning tensors around.

ONNX Runtime's CUDA provider runs its convolutions so where it is told to (`prefer_nhwc`), with a
transpose where a graph's input or output is NCHW. TensorRT chooses layouts by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.changes.channels_last import images_fit, layouts
from gpuscope.advice.doors import OnnxChange
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.program.onnx.workload import OnnxBuild

__all__ = ["GraphChannelsLast"]


class GraphChannelsLast(OnnxChange):
    """Run convolutions with the channel innermost."""

    name = "onnx-channels-last"
    title = Text("NHWC convolutions")
    group = "operators"
    numerics = "reordered"
    excludes = frozenset({"onnx-tensorrt", "onnx-int8"})
    rank = 10

    def fits(self, case: ChangeCase) -> Fit:
        """It needs convolutions over images and an engine that does not choose."""
        if case.onnx is not None and case.onnx.engine.name == "tensorrt":
            return Fit(False, Text("TensorRT chooses layouts by itself."), relevant=False)
        found = layouts(case.program) if case.program is not None else (0, 0)
        return images_fit(*found)

    def changed(self, build: OnnxBuild) -> OnnxBuild:
        """Inputs come turned, filters are turned when the model is loaded."""
        return replace(build, channels_last=True)

    def price(self, case: ChangeCase) -> Text | None:
        """Inputs that come channels first are turned each run."""
        return Text("Input images are turned around once a step, unless they come so.")

    def typed(self, case: ChangeCase) -> Text | None:
        """The provider's option."""
        return Text(
            "ONNX Runtime: providers=[{option}]",
            option='("CUDAExecutionProvider", {"prefer_nhwc": "1"})',
        )


register(GraphChannelsLast())
