"""Attention as one node of the graph, which an engine may run as one kernel.

Operators of version 23 have `Attention` (onnx, docs/Operators.md); `torch.onnx.export` has it for
`scaled_dot_product_attention`. A file that is there can be given to the script
`onnxruntime.transformers.optimizer`, which fuses what it knows of a model's type: of two exports of
BERT's (torch 2.13, transformers 5, with both exporters) it fused no attention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.doors import OnnxChange
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text, plural
from gpuscope.program.onnx.fusing import fused_graph

if TYPE_CHECKING:
    from gpuscope.program.onnx.graph import Graph
    from gpuscope.program.onnx.workload import OnnxBuild

__all__ = ["FusedAttention"]


class FusedAttention(OnnxChange):
    """Write attention as one node."""

    name = "onnx-fused-attention"
    title = Text("attention as one kernel")
    group = "operators"
    numerics = "reordered"
    excludes = frozenset({"onnx-tensorrt", "onnx-int8"})
    rank = 20

    def fits(self, case: ChangeCase) -> Fit:
        """It needs the pattern, and an engine that does not fuse it by itself."""
        build = case.onnx
        if build is None or "attention" in build.engine.fusions:
            return Fit(False, Text("The engine fuses attention by itself."), relevant=False)
        count = _fused(build.model)
        if not count:
            why = Text("There is no attention made of products and a softmax.")
            return Fit(False, why, relevant=False)
        return Fit(
            True,
            plural(
                "{count} attention is made of products and a softmax of its own.",
                "{count} attentions are made of products and a softmax each.",
                count,
            ),
        )

    def changed(self, build: OnnxBuild) -> OnnxBuild:
        """The file with one node for each."""
        return replace(build, model=fused_graph(build.model, ("attention",)))

    def typed(self, case: ChangeCase) -> Text | None:
        """Export it so; or try the script."""
        build = case.onnx
        if build is None:
            return None
        return Text(
            "torch.onnx.export(model, ..., opset_version=23), where the model calls "
            "scaled_dot_product_attention. Of the file alone: python -m "
            "onnxruntime.transformers.optimizer --input {path} --output {stem}.fused.onnx "
            "--model_type bert (or gpt2, vit, ...), which says how many attentions it fused",
            path=build.path,
            stem=build.path.stem,
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """A node that the provider has no kernel for."""
        return Text(
            "Whether the CUDA provider has a kernel for the node depends on its version; without "
            "one it runs on the CPU, with copies."
        )


def _fused(model: Graph) -> int:
    made = fused_graph(model, ("attention",))
    return sum(node.domain == "gpuscope" and node.kind == "Attention" for node in made.nodes)


register(FusedAttention())
