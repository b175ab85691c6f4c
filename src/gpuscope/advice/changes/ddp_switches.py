"""Switches of DDP's constructor that are off by default and cost nothing but a promise.

PyTorch documentation, `DistributedDataParallel`. gradient_as_bucket_view: gradients are views of
the buckets; saves as much memory as the gradients take, and the copies between the two.
static_graph: no search for unused parameters, and recomputation (checkpointing) several times over
is supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.wrappers import keyword_edits, needs_ranks, wraps
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["DDPSwitch"]


class DDPSwitch(Change):
    """Set one keyword of DDP to True.

    Args:
        name, title: of this instance.
        keyword: of `DistributedDataParallel`.
        why: it is worth it.
        promise: what the code must hold to.
    """

    group = "distributed"
    needs_gpu = False

    def __init__(self, name: str, title: Text, keyword: str, why: Text, promise: Text) -> None:
        self.name, self.title = name, title
        self._keyword, self._why, self._promise = keyword, why, promise

    def fits(self, case: ChangeCase) -> Fit:
        """It needs DDP that is not told so yet."""
        refused = needs_ranks(case, "ddp")
        if refused is not None:
            return refused
        if all(wrap.keywords.get(self._keyword) for wrap in wraps(case, "ddp")):
            return Fit(False, Text("It is set already."))
        return Fit(True, self._why)

    def install(self, live: Live) -> None:
        """Say it where DDP is made."""

        def edit(kind: str, keywords: dict[str, Any]) -> None:
            if kind == "ddp":
                keywords[self._keyword] = True

        live.on_wrap(edit)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """The keyword in the call."""
        return keyword_edits(sources, seen, "ddp", self._keyword, "True")

    def risk(self, case: ChangeCase) -> Text:
        """The promise."""
        return self._promise


register(
    DDPSwitch(
        "ddp-bucket-view",
        Text("gradients as views of DDP's buckets"),
        "gradient_as_bucket_view",
        Text("Gradients are copied into buckets and back, and stored twice."),
        Text("`detach_()` must not be called on gradients."),
    )
)
register(
    DDPSwitch(
        "ddp-static-graph",
        Text("DDP with a static graph"),
        "static_graph",
        Text("DDP prepares for steps that use other parameters."),
        Text("Wrong gradients if a step uses other parameters than the first."),
    )
)
