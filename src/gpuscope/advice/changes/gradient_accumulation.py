"""Half the batch, twice, before each update: half the activations, the same number of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.build_batch import batch_of, with_batch
from gpuscope.advice.change import Change
from gpuscope.advice.memory_room import category_bytes, room
from gpuscope.advice.registry import register
from gpuscope.advice.types import NO_BATCH, Case, Fit, Numerics
from gpuscope.analysis.wording import size
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Build, Live

__all__ = ["GradientAccumulation"]

PARTS = 2


class GradientAccumulation(Change):
    """Split a step's batch into parts whose gradients are added."""

    name = "gradient-accumulation"
    title = Words("the batch in two parts, one update", "批量分两次累积梯度")
    group = "memory"
    numerics: Numerics = "recipe"
    excludes = frozenset({"whole-step-graph"})
    needs_gpu = False
    rank = 1

    def fits(self, case: Case) -> Fit:
        """It needs a backward pass, a build with an even batch, and no batch norm."""
        if case.program is None or not case.training:
            why = Words("There is no backward pass.", "没有反向传播。")
            return Fit(False, why, relevant=False)
        if case.seen is None or case.seen.batch is None:
            return NO_BATCH
        if case.seen.batch % PARTS:
            now = case.seen.batch
            return Fit(False, Words(f"A batch of {now} cannot be halved.",
                                    f"批量 {now} 不能对半分。"))  # fmt: skip
        if case.seen.wraps:
            return Fit(
                False,
                Words("Distributed wrappers would communicate in each part (see ddp-no-sync).",
                      "分布式封装会在每一部分都通信（参见 ddp-no-sync）。"),
            )  # fmt: skip
        if any("BatchNorm" in name for model in case.seen.models for name in model.classes):
            return Fit(
                False,
                Words("Batch norm would see half the batch: other statistics.",
                      "批归一化只能看到一半的批量，统计量会改变。"),
            )  # fmt: skip
        space, held = room(case), category_bytes(case, "activation")
        told, zh = "", ""
        if held:
            told = f"; about half of the activations ({size(held)}) would go"
            zh = f"；激活值（{size(held)}）约可减半"
        return Fit(True, Words(f"{space.words.en}{told}.", f"{space.words.zh}{zh}。"))

    def install(self, live: Live) -> None:
        """Build with half the batch and run each step's parts."""
        from gpuscope.advice.accumulating import Accumulating

        def halved(build: Build) -> Build:
            found = batch_of(build)
            if found is None or found[1] % PARTS:
                raise UnsupportedError(
                    "The batch of this build cannot be halved.",
                    "It has no argument 'batch' or 'batch_size' with an even default.",
                    "Write: def build(batch=...):",
                )
            return with_batch(build, found[1] // PARTS)

        live.on_build(halved)
        Accumulating(PARTS).install(live)

    def price(self, case: Case) -> Words | None:
        """Smaller products, launched twice."""
        return Words(
            "Everything but the update is launched twice, on half the samples.",
            "除参数更新外，所有工作都要对一半样本启动两次。",
        )

    def risk(self, case: Case) -> Words | None:
        """What belongs to an update must be recognisable."""
        return Words(
            "The loss must be a mean over the samples, and gradients must be cleared by"
            " zero_grad(); statistics that the step gathers itself are gathered twice.",
            "损失必须是样本上的均值，梯度必须用 zero_grad() 清除；step 自己收集的统计会收集两次。",
        )


register(GradientAccumulation())
