"""The same graph in TensorRT: elementwise chains, reductions and attention as one kernel each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.doors import OnnxChange
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.program.onnx.engines import engine_named

if TYPE_CHECKING:
    from gpuscope.program.onnx.workload import OnnxBuild

__all__ = ["TensorRT"]


class TensorRT(OnnxChange):
    """Build an engine of TensorRT's."""

    name = "onnx-tensorrt"
    title = Text("TensorRT runs the graph")
    group = "compilation"
    numerics = "reordered"
    rank = 40

    def fits(self, case: ChangeCase) -> Fit:
        """It needs an NVIDIA device, and operators that are known."""
        if case.onnx is None or case.onnx.engine.name == "tensorrt":
            return Fit(False, Text("TensorRT runs it already."))
        if case.device.vendor != "NVIDIA":
            return Fit(False, Text("TensorRT runs on NVIDIA's devices alone."), relevant=False)
        unknown = case.program.unsupported if case.program is not None else ()
        if unknown:
            names = ", ".join(sorted(unknown))
            return Fit(False, Text("TensorRT would need plugins for: {names}.", names=names))
        return Fit(True, Text("It fuses more of the graph than {e}.", e=case.onnx.engine.called))

    def changed(self, build: OnnxBuild) -> OnnxBuild:
        """The same file, another engine."""
        return replace(build, engine=engine_named("tensorrt"), channels_last=False)

    def price(self, case: ChangeCase) -> Text | None:
        """Building."""
        return Text("Building takes minutes, for each device and each range of shapes.")

    def typed(self, case: ChangeCase) -> Text | None:
        """As a provider, or built on its own."""
        build = case.onnx
        if build is None:
            return None
        shapes = ",".join(
            f"{each.name}:{'x'.join(map(str, each.shape))}" for each in build.graph.inputs
        )
        return Text(
            'ONNX Runtime: providers=["TensorrtExecutionProvider", "CUDAExecutionProvider"]. '
            "TensorRT: trtexec --onnx={path} --shapes={shapes}",
            path=build.path,
            shapes=shapes,
        )


register(TensorRT())
