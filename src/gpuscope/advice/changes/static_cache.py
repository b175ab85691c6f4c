"""A key-value cache in memory that stays, instead of one that is copied with every token.

A growing cache (`DynamicCache` of transformers) is concatenated anew for each token: twice the
context's bytes are moved, and no two steps are alike, so no CUDA graph can be replayed
(transformers, "Optimizing LLM inference: static KV cache"). Over a fixed memory attention needs a
mask, and works on the unused room too; run eagerly that costs more operators than it saves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.decoding import decodes_with_growing_cache
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["StaticCache"]


class StaticCache(Change):
    """Keep keys and values in memory of a fixed size."""

    name = "static-cache"
    title = Words("key-value cache of a fixed size", "固定大小的 KV 缓存")
    group = "inference"
    numerics = "reordered"
    needs_gpu = False
    rank = 30

    def fits(self, case: Case) -> Fit:
        """It needs decoding by transformers with a cache that grows."""
        return decodes_with_growing_cache(case)

    def install(self, live: Live) -> None:
        """Turn each cache before its first call of one token."""
        from gpuscope.advice.fixed_cache import FixedMemory

        live.on_call(FixedMemory().wrap)

    def price(self, case: Case) -> Words:
        """Memory for tokens to come."""
        return Words(
            "Room for 1152 to 1407 tokens more than the cache holds.",
            "多占 1152 到 1407 个词元的缓存空间。",
        )


register(StaticCache())
