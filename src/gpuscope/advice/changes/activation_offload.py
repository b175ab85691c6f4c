"""Saved activations wait in host memory between forward and backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.memory_room import category_bytes, crossing, room
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.analysis.wording import percent, size
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["ActivationOffload"]

LEAST_SHARE = 0.05
"""Activations below this share of the peak are not worth a copy."""


class ActivationOffload(Change):
    """Keep activations on the host until the backward pass asks for them."""

    name = "activation-offload"
    title = Words("activations kept on the host", "激活值卸载到主机")
    group = "memory"
    excludes = frozenset({
        "checkpoint", "checkpoint-half", "checkpoint-selective", "whole-step-graph",
    })  # fmt: skip
    rank = 50

    def fits(self, case: Case) -> Fit:
        """It needs a backward pass and activations that hold a good part of the peak."""
        if case.program is None or not case.training:
            why = Words("There is no backward pass.", "没有反向传播。")
            return Fit(False, why, relevant=False)
        held = category_bytes(case, "activation")
        peak = case.run.peak_memory_bytes
        if held is not None and peak and held < LEAST_SHARE * peak:
            share = percent(held / peak)
            return Fit(
                False,
                Words(f"Activations are only {share} of the peak.", f"激活值只占峰值的 {share}。"),
            )
        space = room(case)
        told, told_zh = "", ""
        if held:
            told, told_zh = f"; activations hold {size(held)}", f"；激活值占 {size(held)}"
        return Fit(True, Words(f"{space.words.en}{told}.", f"{space.words.zh}{told_zh}。"))

    def install(self, live: Live) -> None:
        """Pack what autograd saves in forward passes."""
        from gpuscope.advice.offloading import ActivationOffload as Offload

        offload = Offload()
        live.around_forward(offload.context)

    def price(self, case: Case) -> Words | None:
        """Every byte crosses the link twice."""
        told = crossing(case, category_bytes(case, "activation"), "Up to ", "最多 ")
        return told or Words("Activations cross the host link twice.", "激活值要两次经过主机链路。")


register(ActivationOffload())
