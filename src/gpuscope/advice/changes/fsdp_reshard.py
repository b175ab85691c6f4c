"""FSDP2 that keeps parameters after the forward pass instead of gathering them again.

`fully_shard(..., reshard_after_forward=False)` (PyTorch documentation): one all-gather less for
each group of parameters, for the memory of all parameters whole between forward and backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Edit, Fit, Seen
from gpuscope.advice.wrappers import collective_bytes, keyword_edits, needs_ranks, wraps
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["FSDPReshard"]


class FSDPReshard(Change):
    """Gather parameters once a step."""

    name = "fsdp-keep-parameters"
    title = Words("FSDP keeps parameters after forward", "FSDP 前向后不重新切分")
    group = "distributed"
    needs_gpu = False

    def fits(self, case: Case) -> Fit:
        """It needs FSDP2 that reshards, and training."""
        refused = needs_ranks(case, "fully_shard")
        if refused is not None:
            return refused
        if not case.training:
            return Fit(False, Words("There is no backward pass.", "没有反向。"), relevant=False)
        told = [w.keywords.get("reshard_after_forward") for w in wraps(case, "fully_shard")]
        if all(value is False for value in told):
            return Fit(False, Words("Parameters are kept already.", "参数已经保留。"))
        return Fit(
            True,
            Words("Parameters are gathered twice a step.", "每步把参数收集两次。"),
        )

    def install(self, live: Live) -> None:
        """Say `reshard_after_forward=False` in each call."""

        def edit(kind: str, keywords: dict[str, Any]) -> None:
            if kind == "fully_shard":
                keywords["reshard_after_forward"] = False

        live.on_wrap(edit)

    def price(self, case: Case) -> Words | None:
        """All parameters whole."""
        gathered = collective_bytes(case, "all_gather", "_allgather") * case.cluster.n_devices
        if not gathered:
            return None
        gb = gathered / 2 / 1e9
        return Words(
            f"About {gb:.1f} GB more memory on each device: all parameters whole.",
            f"每卡约多占 {gb:.1f} GB 显存：保留全部完整参数。",
        )

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`reshard_after_forward=False` in each call."""
        return keyword_edits(sources, seen, "fully_shard", "reshard_after_forward", "False")


register(FSDPReshard())
