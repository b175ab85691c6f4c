"""Half the batch, twice, before each update: half the activations, the same number of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.memory_headroom import category_bytes, room
from gpuscope.advice.registry import register
from gpuscope.advice.source.build_batch import batch_of, with_batch
from gpuscope.advice.types import NO_BATCH, ChangeCase, Fit, Numerics, clauses
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Build, Live

__all__ = ["GradientAccumulation"]

PARTS = 2


class GradientAccumulation(Change):
    """Split a step's batch into parts whose gradients are added."""

    name = "gradient-accumulation"
    title = Text("the batch in two parts, one update")
    group = "memory"
    numerics: Numerics = "recipe"
    excludes = frozenset({"whole-step-graph"})
    needs_gpu = False
    rank = 1

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a backward pass, a build with an even batch, and no batch norm."""
        if case.program is None or not case.training:
            why = Text("There is no backward pass.")
            return Fit(False, why, relevant=False)
        if case.seen is None or case.seen.batch is None:
            return NO_BATCH
        if case.seen.batch % PARTS:
            now = case.seen.batch
            return Fit(False, Text("A batch of {now} cannot be halved.", now=now))
        if case.seen.wraps:
            return Fit(
                False,
                Text("Distributed wrappers would communicate in each part (see ddp-no-sync)."),
            )
        if any("BatchNorm" in name for model in case.seen.models for name in model.classes):
            return Fit(False, Text("Batch norm would see half the batch: other statistics."))
        space, held = room(case), category_bytes(case, "activation")
        half = Text("about half of the activations ({held}) would go", held=Bytes(held or 0))
        return Fit(True, clauses(space.words, half if held else None))

    def install(self, live: Live) -> None:
        """Build with half the batch and run each step's parts."""
        from gpuscope.advice.changes.transforms.accumulation import Accumulating

        def halved(build: Build) -> Build:
            found = batch_of(build)
            if found is None or found[1] % PARTS:
                raise UnsupportedError(
                    Text("The batch of this build cannot be halved."),
                    Text("It has no argument 'batch' or 'batch_size' with an even default."),
                    Text("Write: def build(batch=...):"),
                )
            return with_batch(build, found[1] // PARTS)

        live.on_build(halved)
        Accumulating(PARTS).install(live)

    def price(self, case: ChangeCase) -> Text | None:
        """Smaller products, launched twice."""
        return Text("Everything but the update is launched twice, on half the samples.")

    def risk(self, case: ChangeCase) -> Text | None:
        """What belongs to an update must be recognisable."""
        return Text(
            "The loss must be a mean over the samples, and gradients must be cleared by "
            "zero_grad(); statistics that the step gathers itself are gathered twice."
        )


register(GradientAccumulation())
