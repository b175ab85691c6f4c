"""FSDP2 that keeps parameters after the forward pass instead of gathering them again.

`fully_shard(..., reshard_after_forward=False)` (PyTorch documentation): one all-gather less for
each group of parameters, for the memory of all parameters whole between forward and backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.wrappers import (
    collective_bytes,
    keyword_edits,
    needs_ranks,
    wraps,
)
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["FSDPReshard"]


class FSDPReshard(Change):
    """Gather parameters once a step."""

    name = "fsdp-keep-parameters"
    title = Text("FSDP keeps parameters after forward")
    group = "distributed"
    needs_gpu = False

    def fits(self, case: ChangeCase) -> Fit:
        """It needs FSDP2 that reshards, and training."""
        refused = needs_ranks(case, "fully_shard")
        if refused is not None:
            return refused
        if not case.training:
            return Fit(False, Text("There is no backward pass."), relevant=False)
        known = [w.keywords.get("reshard_after_forward") for w in wraps(case, "fully_shard")]
        if all(value is False for value in known):
            return Fit(False, Text("Parameters are kept already."))
        return Fit(True, Text("Parameters are gathered twice a step."))

    def install(self, live: Live) -> None:
        """Say `reshard_after_forward=False` in each call."""

        def edit(kind: str, keywords: dict[str, Any]) -> None:
            if kind == "fully_shard":
                keywords["reshard_after_forward"] = False

        live.on_wrap(edit)

    def price(self, case: ChangeCase) -> Text | None:
        """All parameters whole."""
        gathered = collective_bytes(case, "all_gather", "_allgather") * case.cluster.n_devices
        if not gathered:
            return None
        gb = gathered / 2 / 1e9
        return Text(
            "About {gb} GB more memory on each device: all parameters whole.", gb=Number(gb, ".1f")
        )

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`reshard_after_forward=False` in each call."""
        return keyword_edits(sources, seen, "fully_shard", "reshard_after_forward", "False")


register(FSDPReshard())
