"""More samples a step: fixed costs (launches, the optimizer, reading weights) are shared by more.

It changes how a model learns: the learning rate and the schedule must be chosen anew (Goyal et al.,
"Accurate, Large Minibatch SGD", 2017). Which batch is best is found by
`gpuscope.advice.forecast.batch.advise_batch`; this change doubles or quadruples it, so that it is
priced together with the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.memory_headroom import category_bytes, room
from gpuscope.advice.registry import register
from gpuscope.advice.source.build_batch import batch_of, with_batch
from gpuscope.advice.types import NO_BATCH, ChangeCase, Fit, Numerics
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Build, Live

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

    def __init__(self, name: str, factor: int, title: Text, excludes: frozenset[str]) -> None:
        self.name, self.factor, self.title = name, factor, title
        self.excludes = excludes | {"gradient-accumulation"}

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a build with a batch, and room in memory."""
        if case.seen is None or case.seen.batch is None:
            return NO_BATCH
        now, then = case.seen.batch, case.seen.batch * self.factor
        space, needed = room(case), _needed_bytes(case, self.factor)
        if needed is not None and space.capacity_bytes:
            needs, capacity = Bytes(needed), Bytes(space.capacity_bytes)
            if needed > MARGIN * space.capacity_bytes:
                return Fit(
                    False,
                    Text(
                        "A batch of {then} would need about {needed} of {capacity}.",
                        then=then,
                        needed=needs,
                        capacity=capacity,
                    ),
                )
            return Fit(
                True,
                Text(
                    "A batch of {then} instead of {now} needs about {needed} of {capacity}.",
                    then=then,
                    now=now,
                    needed=needs,
                    capacity=capacity,
                ),
            )
        return Fit(True, Text("The batch is {now}.", now=now))

    def install(self, live: Live) -> None:
        """Build with another batch."""

        def larger(build: Build) -> Build:
            found = batch_of(build)
            if found is None:
                raise UnsupportedError(
                    Text("The batch of this build cannot be changed."),
                    Text("It has no argument 'batch' or 'batch_size' with a default."),
                    Text("Write: def build(batch=...):"),
                )
            return with_batch(build, found[1] * self.factor)

        live.on_build(larger)

    def work_factor(self, case: ChangeCase) -> float:
        """As many times the samples."""
        return float(self.factor)

    def risk(self, case: ChangeCase) -> Text | None:
        """Another recipe."""
        return Text("Fewer updates for the same data: the learning rate must be chosen anew.")


def _needed_bytes(case: ChangeCase, factor: int) -> int | None:
    """The peak, with all that grows with the batch taken so many times."""
    peak = case.run.peak_memory_bytes
    grows = [category_bytes(case, each) for each in _PER_SAMPLE]
    if peak is None or None in grows:
        return None
    return peak + (factor - 1) * sum(each or 0 for each in grows)


register(LargerBatch("larger-batch", 2, Text("twice the batch"), frozenset({"larger-batch-4x"})))
register(
    LargerBatch("larger-batch-4x", 4, Text("four times the batch"), frozenset({"larger-batch"}))
)
