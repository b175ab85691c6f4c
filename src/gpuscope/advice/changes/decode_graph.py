"""Decoding as a CUDA graph: the host launches a token's forward pass with one call.

A batch-1 decoding step has a thousand kernels of a few microseconds; launched one by one, the host
sets the pace. A graph replays them all at once (PyTorch, "Accelerating PyTorch with CUDA Graphs",
2021). It needs a cache of a fixed size, which comes with it.
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

__all__ = ["DecodeGraph"]


class DecodeGraph(Change):
    """Replay a token's forward pass from a CUDA graph."""

    name = "decode-graph"
    title = Text("CUDA graph for each token")
    group = "inference"
    compiles = True
    numerics = "reordered"
    excludes = frozenset(
        {
            "compile-reduce-overhead",
            "compile-max-autotune",
            "compile-unmasked-graphs",
            "cuda-graph",
            "whole-step-graph",
        }
    )
    rank = 90

    def fits(self, case: ChangeCase) -> Fit:
        """It needs decoding by transformers, launched kernel by kernel."""
        if case.program is not None and case.program.compiled in (
            "reduce-overhead",
            "max-autotune",
            "cudagraphs",
        ):
            return Fit(False, Text("A CUDA graph is used already."))
        return decodes_with_growing_cache(case)

    def install(self, live: Live) -> None:
        """Capture the model's call for one token; give it a cache that stays."""
        from gpuscope.advice.changes.transforms.decode_graphs import replayed
        from gpuscope.advice.registry import find

        if all(change.name != "static-cache" for change in live.changes):
            find("static-cache").install(live)
        live.on_call(replayed)

    def price(self, case: ChangeCase) -> Text:
        """A capture for each shape."""
        return Text("The first tokens are slow; a batch of another size is captured anew.")


register(DecodeGraph())
