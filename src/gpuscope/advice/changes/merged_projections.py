"""Queries, keys and values by one product, gate and up by another: fewer, larger kernels.

A decoding step reads each weight once; a small matrix (keys and values of few heads) is over before
all of memory's bandwidth is in use, and every kernel has a begin and an end of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.decoding import model_of
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["MergedProjections"]

_FIRSTS = ("q_proj", "gate_proj", "query", "wq", "w1")


class MergedProjections(Change):
    """Read the weights of layers with one input in one product."""

    name = "merged-projections"
    title = Text("Q, K, V in one product, gate and up in another")
    group = "inference"
    numerics = "reordered"
    needs_gpu = False
    rank = 25
    excludes = frozenset({"int8-weights", "int4-weights", "dynamic-int8"})

    def fits(self, case: ChangeCase) -> Fit:
        """It needs inference with layers of these names."""
        if case.program is None or case.training:
            return Fit(False, Text("Only for inference."), relevant=False)
        model = model_of(case)
        if model is not None and model.requires_grad and model.training:
            why = Text("The model is being trained.")
            return Fit(False, why, relevant=False)
        if not any(op.module.rpartition(".")[2] in _FIRSTS for op in case.program.ops):
            why = Text("No layers of one input were found.")
            return Fit(False, why, relevant=False)
        return Fit(True, Text("Layers that read the same input are separate products."))

    def install(self, live: Live) -> None:
        """Merge the layers of each model when it is met."""

        merged = [0]

        def edit(model: Any) -> None:
            from gpuscope.advice.changes.transforms.merged_linears import merge_linears

            merged[0] += merge_linears(model)

        def checked(model: Any, call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **kwargs: Any) -> Any:
                if merged[0] == 0:
                    raise UnsupportedError(
                        Text("No layers could be merged."),
                        Text(
                            "{name} has no plain linear layers of one input.",
                            name=type(model).__name__,
                        ),
                        Text("Leave out merged-projections."),
                    )
                return call(*args, **kwargs)

            return called

        live.on_model(edit)
        live.on_call(checked)


register(MergedProjections())
