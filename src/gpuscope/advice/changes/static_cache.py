"""A key-value cache in memory that stays, instead of one that is copied with every token.

A growing cache (`DynamicCache` of transformers) is concatenated anew for each token: twice the
context's bytes are moved, and no two steps are alike, so no CUDA graph can be replayed
(transformers, "Optimizing LLM inference: static KV cache"). Over a fixed memory attention needs a
mask, and works on the unused room too; run eagerly that costs more operators than it saves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.decoding import decodes_with_growing_cache
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["StaticCache"]


class StaticCache(Change):
    """Keep keys and values in memory of a fixed size."""

    name = "static-cache"
    title = Text("key-value cache of a fixed size")
    group = "inference"
    numerics = "reordered"
    needs_gpu = False
    rank = 30

    def fits(self, case: ChangeCase) -> Fit:
        """It needs decoding by transformers with a cache that grows."""
        return decodes_with_growing_cache(case)

    def install(self, live: Live) -> None:
        """Turn each cache before its first call of one token."""
        from gpuscope.advice.changes.transforms.fixed_cache import FixedMemory

        live.on_call(FixedMemory().wrap)

    def price(self, case: ChangeCase) -> Text:
        """Memory for tokens to come."""
        return Text("Room for 1152 to 1407 tokens more than the cache holds.")


register(StaticCache())
