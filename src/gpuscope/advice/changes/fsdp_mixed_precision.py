"""FSDP2 that gathers and computes in bfloat16, with sharded parameters in float32.

`MixedPrecisionPolicy(param_dtype=bfloat16, reduce_dtype=float32)` (PyTorch documentation): half the
bytes of every all-gather, products on tensor cores, gradients reduced in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.wrappers import keyword_edits, needs_bf16, needs_ranks
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["FSDPMixedPrecision"]

_POLICY = "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)"


class FSDPMixedPrecision(Change):
    """Gather parameters in bfloat16."""

    name = "fsdp-bf16"
    title = Text("FSDP gathers and computes in bfloat16")
    group = "distributed"
    numerics = "bf16"

    def fits(self, case: ChangeCase) -> Fit:
        """It needs FSDP2 that gathers float32."""
        refused = needs_ranks(case, "fully_shard") or needs_bf16(case)
        if refused is not None:
            return refused
        ops = case.program.ops if case.program is not None else ()
        gathered = {
            spec.dtype for op in ops for spec in op.inputs if op.group >= 0 and "gather" in op.name
        }
        if "float32" not in gathered:
            why = Text("Parameters are not gathered in float32.")
            return Fit(False, why)
        return Fit(True, Text("Parameters are gathered in float32."))

    def install(self, live: Live) -> None:
        """Give each call a policy, keeping what a policy of the code's own says otherwise."""

        def edit(kind: str, keywords: dict[str, Any]) -> None:
            if kind != "fully_shard":
                return
            import torch
            from torch.distributed.fsdp import MixedPrecisionPolicy

            given = keywords.get("mp_policy") or MixedPrecisionPolicy()
            if given.param_dtype is None:
                keywords["mp_policy"] = replace(
                    given,
                    param_dtype=torch.bfloat16,
                    reduce_dtype=given.reduce_dtype or torch.float32,
                )

        live.on_wrap(edit)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """The policy in each call."""
        found = keyword_edits(sources, seen, "fully_shard", "mp_policy", _POLICY)
        needs = ("import torch", "from torch.distributed.fsdp import MixedPrecisionPolicy")
        return None if found is None else tuple(replace(edit, needs=needs) for edit in found)


register(FSDPMixedPrecision())
