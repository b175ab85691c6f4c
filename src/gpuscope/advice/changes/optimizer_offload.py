"""Optimizer states wait in host memory between optimizer steps.

They are needed only while the optimizer runs, when no activation is left: the peak of a step is
then the larger of the two, not their sum. The update itself stays on the device, with the same
kernels and the same results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.memory_room import category_bytes, crossing, room
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.analysis.wording import size
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["OptimizerOffload"]


class OptimizerOffload(Change):
    """Keep optimizer states on the host between steps."""

    name = "optimizer-offload"
    title = Words("optimizer states kept on the host", "优化器状态卸载到主机")
    group = "memory"
    excludes = frozenset({"whole-step-graph", "compile-optimizer"})
    rank = 55

    def fits(self, case: Case) -> Fit:
        """It needs an optimizer with states, in memory at the peak."""
        if case.seen is None or not case.seen.optimizers:
            return Fit(False, Words("There is no optimizer.", "没有优化器。"), relevant=False)
        held = category_bytes(case, "optimizer_state")
        if held is not None and held < 1 << 20:
            return Fit(
                False,
                Words("The optimizer keeps no states on the device at the peak.",
                      "峰值时设备上没有优化器状态。"),
            )  # fmt: skip
        space = room(case)
        told, told_zh = "", ""
        if held:
            told, told_zh = f"; optimizer states hold {size(held)}", f"；优化器状态占 {size(held)}"
        return Fit(True, Words(f"{space.words.en}{told}.", f"{space.words.zh}{told_zh}。"))

    def install(self, live: Live) -> None:
        """Bring the states before each optimizer step and take them away after it."""
        from gpuscope.advice.offloading import OptimizerOffload as Offload

        offload = Offload(live.pretended)
        live.on_optimizer_made(offload.use)
        live.at_end(offload.close)

    def price(self, case: Case) -> Words | None:
        """Every state crosses the link twice a step."""
        told = crossing(case, category_bytes(case, "optimizer_state"))
        unknown = Words("States cross the host link twice a step.", "状态每步两次经过主机链路。")
        return told or unknown

    def risk(self, case: Case) -> Words | None:
        """Code that reads the states itself."""
        return Words(
            "Code that reads the optimizer's states between steps finds them on the host.",
            "在两步之间自行读取优化器状态的代码会发现状态在主机上。",
        )


register(OptimizerOffload())
