"""Optimizer states wait in host memory between optimizer steps.

They are needed only while the optimizer runs, when no activation is left: the peak of a step is
then the larger of the two, not their sum. The update itself stays on the device, with the same
kernels and the same results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.memory_headroom import category_bytes, crossing, room
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit, clauses
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["OptimizerOffload"]


class OptimizerOffload(Change):
    """Keep optimizer states on the host between steps."""

    name = "optimizer-offload"
    title = Text("optimizer states kept on the host")
    group = "memory"
    excludes = frozenset({"whole-step-graph", "compile-optimizer"})
    rank = 55

    def fits(self, case: ChangeCase) -> Fit:
        """It needs an optimizer with states, in memory at the peak."""
        if case.seen is None or not case.seen.optimizers:
            return Fit(False, Text("There is no optimizer."), relevant=False)
        held = category_bytes(case, "optimizer_state")
        if held is not None and held < 1 << 20:
            return Fit(False, Text("The optimizer keeps no states on the device at the peak."))
        space = room(case)
        holding = Text("optimizer states hold {held}", held=Bytes(held or 0))
        return Fit(True, clauses(space.words, holding if held else None))

    def install(self, live: Live) -> None:
        """Bring the states before each optimizer step and take them away after it."""
        from gpuscope.advice.changes.transforms.offloading import OptimizerOffload as Offload

        offload = Offload(live.pretended)
        live.on_optimizer_made(offload.use)
        live.at_end(offload.close)

    def price(self, case: ChangeCase) -> Text | None:
        """Every state crosses the link twice a step."""
        crosses = crossing(case, category_bytes(case, "optimizer_state"))
        return crosses or Text("States cross the host link twice a step.")

    def risk(self, case: ChangeCase) -> Text | None:
        """Code that reads the states itself."""
        return Text("Code that reads the optimizer's states between steps finds them on the host.")


register(OptimizerOffload())
