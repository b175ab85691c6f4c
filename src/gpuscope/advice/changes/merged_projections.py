"""Queries, keys and values by one product, gate and up by another: fewer, larger kernels.

A decoding step reads each weight once; a small matrix (keys and values of few heads) is over before
all of memory's bandwidth is in use, and every kernel has a begin and an end of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.decoding import model_of
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["MergedProjections"]

_FIRSTS = ("q_proj", "gate_proj", "query", "wq", "w1")


class MergedProjections(Change):
    """Read the weights of layers with one input in one product."""

    name = "merged-projections"
    title = Words(
        "Q, K, V in one product, gate and up in another",
        "Q、K、V 合并为一次矩阵乘，gate 与 up 合并",
    )
    group = "inference"
    numerics = "reordered"
    needs_gpu = False
    rank = 25
    excludes = frozenset({"int8-weights", "int4-weights", "dynamic-int8"})

    def fits(self, case: Case) -> Fit:
        """It needs inference with layers of these names."""
        if case.program is None or case.training:
            return Fit(False, Words("Only for inference.", "只用于推理。"), relevant=False)
        model = model_of(case)
        if model is not None and model.requires_grad and model.training:
            why = Words("The model is being trained.", "模型处于训练模式。")
            return Fit(False, why, relevant=False)
        if not any(op.module.rpartition(".")[2] in _FIRSTS for op in case.program.ops):
            why = Words("No layers of one input were found.", "没有找到共用输入的线性层。")
            return Fit(False, why, relevant=False)
        return Fit(
            True,
            Words(
                "Layers that read the same input are separate products.",
                "读取同一输入的线性层是分开的矩阵乘。",
            ),
        )

    def install(self, live: Live) -> None:
        """Merge the layers of each model when it is met."""

        merged = [0]

        def edit(model: Any) -> None:
            from gpuscope.advice.merged_linears import merge_linears

            merged[0] += merge_linears(model)

        def checked(model: Any, call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **kwargs: Any) -> Any:
                if merged[0] == 0:
                    raise UnsupportedError(
                        "No layers could be merged.",
                        f"{type(model).__name__} has no plain linear layers of one input.",
                        "Leave out merged-projections.",
                    )  # fmt: skip
                return call(*args, **kwargs)

            return called

        live.on_model(edit)
        live.on_call(checked)


register(MergedProjections())
