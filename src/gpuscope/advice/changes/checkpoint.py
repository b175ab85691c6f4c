"""Recomputation: fewer activations kept for the backward pass, more work done in it.

Three strengths: every block, every other block, or every block but for the results of products and
attention ("selective": what is computed again is then only cheap).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.memory_headroom import category_bytes, room
from gpuscope.advice.changes.transforms.recomputation import recompute_blocks, without_cache
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit, Numerics, clauses
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text, sentences

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["Checkpoint"]

_NAMES = ("checkpoint", "checkpoint-half", "checkpoint-selective")

TIGHT = 0.85
"""Above this share of the memory, less of it may be worth its time by itself."""


class Checkpoint(Change):
    """Run blocks again in the backward pass instead of keeping what they computed.

    Args:
        name: what it is called.
        title: what it does.
        every: 1 for all blocks, 2 for every other one.
        keep_products: keep the results of products and attention.
    """

    group = "memory"
    numerics: Numerics = "exact"
    needs_gpu = False
    rank = 50

    def __init__(self, name: str, title: Text, every: int, keep_products: bool) -> None:
        self.name, self.title = name, title
        self.every, self.keep_products = every, keep_products
        self.excludes = frozenset(_NAMES) - {name}

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a backward pass, repeated blocks, and activations that are kept."""
        if case.program is None or case.seen is None:
            why = Text("The code is not known, only its timeline.")
            return Fit(False, why, relevant=False)
        if not case.training:
            why = Text("There is no backward pass.")
            return Fit(False, why, relevant=False)
        if any(op.recomputed for op in case.program.ops):
            return Fit(False, Text("The code recomputes already."))
        if not any(model.repeated for model in case.seen.models):
            why = Text("No model has repeated blocks.")
            return Fit(False, why)
        return Fit(True, _why(case))

    def install(self, live: Live) -> None:
        """Wrap the blocks of each model that is trained and has some."""

        def edit(model: object) -> None:
            from gpuscope.advice.changes.transforms.repeated_blocks import repeated_blocks

            if repeated_blocks(model):
                recompute_blocks(model, every=self.every, keep_products=self.keep_products)

        live.on_model(edit)
        live.on_call(without_cache)

    def price(self, case: ChangeCase) -> Text | None:
        """Time: what is computed twice."""
        if self.keep_products:
            return Text("Cheap operators run a second time; each block is dearer for the host.")
        if self.every == 1:
            return Text("Every block's forward pass runs twice.")
        return Text("Every other block's forward pass runs twice.")

    def risk(self, case: ChangeCase) -> Text | None:
        """Blocks must do the same when they run again."""
        return Text(
            "A block that keeps a state of its own between calls (a counter, a cache) would change "
            "it twice; random numbers and batch norms are taken care of."
        )


def _why(case: ChangeCase) -> Text:
    """What there is to gain, in numbers."""
    space = room(case)
    share = space.share
    held = category_bytes(case, "activation")
    said = clauses(
        space.words, Text("activations hold {held} of it", held=Bytes(held)) if held else None
    )
    if share is None or share >= TIGHT:
        return said
    return sentences(
        said,
        Text(
            "Nothing presses to recompute: it costs time, and pays only where the room is used (a "
            "larger batch)."
        ),
    )


for _name, _title, _every, _keep in (
    ("checkpoint", Text("recompute every block"), 1, False),
    ("checkpoint-half", Text("recompute every other block"), 2, False),
    ("checkpoint-selective", Text("recompute all but products and attention"), 1, True),
):
    register(Checkpoint(_name, _title, _every, _keep))
