"""More samples a run: weights are read once for all, launches are shared, tiles are filled.

Each answer comes later; whether that is worth it is for the service to say, so it is made only when
asked for. `--batch-advice` finds where the memory ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.advice.changes.evidence.graphs import batch_axis
from gpuscope.advice.doors import OnnxChange
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.program.onnx.workload import OnnxBuild

__all__ = ["GraphBatch"]


class GraphBatch(OnnxChange):
    """Run several times as many samples at once.

    Args:
        name: what it is called.
        factor: how many times.
        title: what it does.
        excludes: the other sizes.
    """

    group = "inference"
    numerics = "exact"
    rank = 1

    def __init__(self, name: str, factor: int, title: Text, excludes: frozenset[str]) -> None:
        self.name, self.factor, self.title, self.excludes = name, factor, title, excludes

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a dynamic axis for the batch."""
        axis = None if case.onnx is None else batch_axis(case.onnx)
        if case.onnx is None or axis is None:
            return Fit(False, Text("The batch is fixed in the file: export with dynamic shapes."))
        return Fit(True, Text("The batch is {now}.", now=case.onnx.sizes[axis]))

    def changed(self, build: OnnxBuild) -> OnnxBuild:
        """Another size of that axis."""
        axis = batch_axis(build)
        assert axis is not None
        return replace(build, sizes={**build.sizes, axis: build.sizes[axis] * self.factor})

    def on_request(self, case: ChangeCase) -> bool:
        """Answers come later: the user has to want that."""
        return True

    def work_factor(self, case: ChangeCase) -> float:
        """As many times the samples."""
        return float(self.factor)

    def typed(self, case: ChangeCase) -> Text | None:
        """Give as many inputs at once; predict it with that size."""
        axis = None if case.onnx is None else batch_axis(case.onnx)
        if case.onnx is None or axis is None:
            return None
        return Text(
            "gpuscope predict {path} --set {axis}={size}; inputs of that size in one run",
            path=case.onnx.path,
            axis=axis,
            size=case.onnx.sizes[axis] * self.factor,
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """Latency."""
        return Text("Every answer waits for the whole batch.")


_TWICE, _FOUR = "onnx-larger-batch", "onnx-larger-batch-4x"

register(GraphBatch(_TWICE, 2, Text("twice the batch"), frozenset({_FOUR})))
register(GraphBatch(_FOUR, 4, Text("four times the batch"), frozenset({_TWICE})))
