"""Decoding as a CUDA graph: the host launches a token's forward pass with one call.

A batch-1 decoding step has a thousand kernels of a few microseconds; launched one by one, the host
sets the pace. A graph replays them all at once (PyTorch, "Accelerating PyTorch with CUDA Graphs",
2021). It needs a cache of a fixed size, which comes with it.
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

__all__ = ["DecodeGraph"]


class DecodeGraph(Change):
    """Replay a token's forward pass from a CUDA graph."""

    name = "decode-graph"
    title = Words("CUDA graph for each token", "逐词元解码用 CUDA 图")
    group = "inference"
    compiles = True
    numerics = "reordered"
    excludes = frozenset(
        {
            "compile-reduce-overhead", "compile-max-autotune", "compile-unmasked-graphs",
            "cuda-graph", "whole-step-graph",
        }
    )  # fmt: skip
    rank = 90

    def fits(self, case: Case) -> Fit:
        """It needs decoding by transformers, launched kernel by kernel."""
        if case.program is not None and case.program.compiled in (
            "reduce-overhead", "max-autotune", "cudagraphs",
        ):  # fmt: skip
            return Fit(False, Words("A CUDA graph is used already.", "已经用了 CUDA 图。"))
        return decodes_with_growing_cache(case)

    def install(self, live: Live) -> None:
        """Capture the model's call for one token; give it a cache that stays."""
        from gpuscope.advice.decode_graphs import replayed
        from gpuscope.advice.registry import find

        if all(change.name != "static-cache" for change in live.changes):
            find("static-cache").install(live)
        live.on_call(replayed)

    def price(self, case: Case) -> Words:
        """A capture for each shape."""
        return Words(
            "The first tokens are slow; a batch of another size is captured anew.",
            "前几个词元较慢；批大小改变时要重新捕获。",
        )


register(DecodeGraph())
