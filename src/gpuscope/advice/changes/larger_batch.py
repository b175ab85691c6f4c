"""More samples a step: fixed costs (launches, the optimizer, reading weights) are shared by more.

It changes how a model learns: the learning rate and the schedule must be chosen anew (Goyal et al.,
"Accurate, Large Minibatch SGD", 2017). Which batch is best is found by
`gpuscope.advice.batch.advise_batch`; this change doubles or quadruples it, so that it is priced
together with the others.
"""

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

__all__ = ["LargerBatch"]

MARGIN = 0.92
"""Share of the memory that may be used: fragmentation grows over hours."""

_PER_SAMPLE = ("activation", "input", "temporary")


class LargerBatch(Change):
    """Work on several times as many samples in each step.

    Args:
        name: what it is called.
        factor: how many times.
        title: what it does.
        excludes: the other sizes.
    """

    group = "memory"
    numerics: Numerics = "recipe"
    needs_gpu = False
    rank = 1

    def __init__(self, name: str, factor: int, title: Words, excludes: frozenset[str]) -> None:
        self.name, self.factor, self.title = name, factor, title
        self.excludes = excludes | {"gradient-accumulation"}

    def fits(self, case: Case) -> Fit:
        """It needs a build with a batch, and room in memory."""
        if case.seen is None or case.seen.batch is None:
            return NO_BATCH
        now, then = case.seen.batch, case.seen.batch * self.factor
        space, needed = room(case), _needed_bytes(case, self.factor)
        if needed is not None and space.capacity_bytes:
            told, capacity = size(needed), size(space.capacity_bytes)
            if needed > MARGIN * space.capacity_bytes:
                return Fit(
                    False,
                    Words(f"A batch of {then} would need about {told} of {capacity}.",
                          f"批量 {then} 大约需要 {told}，而显存为 {capacity}。"),
                )  # fmt: skip
            return Fit(
                True,
                Words(f"A batch of {then} instead of {now} needs about {told} of {capacity}.",
                      f"批量从 {now} 增至 {then} 大约需要 {told}，显存为 {capacity}。"),
            )  # fmt: skip
        return Fit(True, Words(f"The batch is {now}.", f"批量为 {now}。"))

    def install(self, live: Live) -> None:
        """Build with another batch."""

        def larger(build: Build) -> Build:
            found = batch_of(build)
            if found is None:
                raise UnsupportedError(
                    "The batch of this build cannot be changed.",
                    "It has no argument 'batch' or 'batch_size' with a default.",
                    "Write: def build(batch=...):",
                )
            return with_batch(build, found[1] * self.factor)

        live.on_build(larger)

    def work_factor(self, case: Case) -> float:
        """As many times the samples."""
        return float(self.factor)

    def risk(self, case: Case) -> Words | None:
        """Another recipe."""
        return Words(
            "Fewer updates for the same data: the learning rate must be chosen anew.",
            "同样的数据更新次数变少：需要重新选择学习率。",
        )


def _needed_bytes(case: Case, factor: int) -> int | None:
    """The peak, with all that grows with the batch taken so many times."""
    peak = case.run.peak_memory_bytes
    grows = [category_bytes(case, each) for each in _PER_SAMPLE]
    if peak is None or None in grows:
        return None
    return peak + (factor - 1) * sum(each or 0 for each in grows)


register(LargerBatch(
    "larger-batch", 2, Words("twice the batch", "批量加倍"), frozenset({"larger-batch-4x"})
))  # fmt: skip
register(LargerBatch(
    "larger-batch-4x", 4, Words("four times the batch", "批量四倍"), frozenset({"larger-batch"})
))  # fmt: skip
