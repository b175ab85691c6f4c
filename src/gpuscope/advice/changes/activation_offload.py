"""Saved activations wait in host memory between forward and backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.memory_headroom import category_bytes, crossing, room
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit, clauses
from gpuscope.document.quantities import Bytes, Percent
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["ActivationOffload"]

LEAST_SHARE = 0.05
"""Activations below this share of the peak are not worth a copy."""


class ActivationOffload(Change):
    """Keep activations on the host until the backward pass asks for them."""

    name = "activation-offload"
    title = Text("activations kept on the host")
    group = "memory"
    excludes = frozenset(
        {"checkpoint", "checkpoint-half", "checkpoint-selective", "whole-step-graph"}
    )
    rank = 50

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a backward pass and activations that hold a good part of the peak."""
        if case.program is None or not case.training:
            why = Text("There is no backward pass.")
            return Fit(False, why, relevant=False)
        held = category_bytes(case, "activation")
        peak = case.run.peak_memory_bytes
        if held is not None and peak and held < LEAST_SHARE * peak:
            share = Percent(held / peak)
            return Fit(False, Text("Activations are only {share} of the peak.", share=share))
        space = room(case)
        holding = Text("activations hold {held}", held=Bytes(held or 0))
        return Fit(True, clauses(space.words, holding if held else None))

    def install(self, live: Live) -> None:
        """Pack what autograd saves in forward passes."""
        from gpuscope.advice.changes.transforms.offloading import ActivationOffload as Offload

        offload = Offload()
        live.around_forward(offload.context)

    def price(self, case: ChangeCase) -> Text | None:
        """Every byte crosses the link twice."""
        crosses = crossing(case, category_bytes(case, "activation"), at_most=True)
        return crosses or Text("Activations cross the host link twice.")


register(ActivationOffload())
