"""A run as one CUDA graph: the host launches once instead of once a node.

ONNX Runtime's CUDA provider records the first run (`enable_cuda_graph`); it needs fixed sizes,
inputs and outputs bound to the device, and no control flow. TensorRT's `trtexec --useCudaGraph`
likewise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.doors import OnnxChange
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.program.onnx.workload import OnnxBuild

__all__ = ["CudaGraph"]


class CudaGraph(OnnxChange):
    """Record a run, and replay it."""

    name = "onnx-cuda-graph"
    title = Text("one CUDA graph for a run")
    group = "compilation"
    numerics = "exact"
    rank = 90

    def fits(self, case: ChangeCase) -> Fit:
        """It needs an NVIDIA device and a graph without branches, loops and waits."""
        if case.device.vendor != "NVIDIA":
            return Fit(False, Text("CUDA graphs are NVIDIA's."), relevant=False)
        build, program = case.onnx, case.program
        if build is None or build.engine.node_s is None:
            return Fit(False, Text("No engine runs it: --engine onnxruntime"))
        branches = sorted({node.kind for node in build.model.nodes if node.bodies})
        if branches:
            return Fit(
                False, Text("A graph with {kinds} cannot be recorded.", kinds=", ".join(branches))
            )
        if program is not None and any(op.sync for op in program.ops):
            return Fit(False, Text("The run waits for the device in its middle."))
        return Fit(True, Text("The host launches every node by itself."))

    def changed(self, build: OnnxBuild) -> OnnxBuild:
        """The same kernels, one launch."""
        return replace(build, replayed=True)

    def price(self, case: ChangeCase) -> Text | None:
        """Fixed sizes."""
        return Text("One graph for each set of sizes: inputs are padded to a few.")

    def typed(self, case: ChangeCase) -> Text | None:
        """The provider's option, with bound inputs and outputs."""
        return Text(
            "ONNX Runtime: providers=[{option}] and session.run_with_iobinding(binding). TensorRT: "
            "trtexec --useCudaGraph",
            option='("CUDAExecutionProvider", {"enable_cuda_graph": "1"})',
        )


register(CudaGraph())
