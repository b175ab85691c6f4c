"""Decoding's attention without repeated keys: grouped heads share what is read of the cache.

See `gpuscope.advice.changes.transforms.grouped_query_attention`; it helps where a cache of a fixed
size brings a mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.decoding import decodes, model_of
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.program.types import Op

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["GroupedAttention"]


class GroupedAttention(Change):
    """Let query heads of a group be rows of one product over its keys."""

    name = "grouped-attention"
    title = Text("grouped heads without repeated keys")
    group = "inference"
    numerics = "reordered"
    needs_gpu = False
    rank = 30

    def fits(self, case: ChangeCase) -> Fit:
        """It needs decoding by transformers with fewer key heads than query heads."""
        model = model_of(case)
        if case.program is None or model is None or not decodes(case.program):
            why = Text("It does not decode token by token.")
            return Fit(False, why, relevant=False)
        if not model.module.startswith("transformers.") or model.attention != "sdpa":
            why = Text("Only SDPA attention of transformers can be replaced.")
            return Fit(False, why)
        if not any(_grouped(op) for op in case.program.ops):
            why = Text("Every query head has keys of its own.")
            return Fit(False, why, relevant=False)
        return Fit(
            True,
            Text(
                "With a mask, keys are repeated for every query head; a cache of a fixed size "
                "brings a mask."
            ),
        )

    def install(self, live: Live) -> None:
        """Replace the attention function that transformers looks up by name."""
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        from gpuscope.advice.changes.transforms.grouped_query_attention import grouped

        known = ALL_ATTENTION_FUNCTIONS._global_mapping
        usual = known["sdpa"]
        known["sdpa"] = grouped(usual)
        live.at_end(lambda: known.__setitem__("sdpa", usual))


def _grouped(op: Op) -> bool:
    """Keys of fewer heads than queries, or the copies that repeat them."""
    if op.name.rpartition("::")[2] == "attention" and len(op.inputs) > 1:
        query, key = op.inputs[:2]
        return len(query.shape) == 4 and key.shape[1] < query.shape[1]
    return len(op.inputs) == 1 and len(op.inputs[0].shape) == 5 and 0 in op.inputs[0].stride


register(GroupedAttention())
