"""Asynchronous tensor parallelism: products cut into pieces that overlap with their collectives.

`torch._inductor.config._micro_pipeline_tp` fuses all-gather with product and product with
reduce-scatter over symmetric memory (PyTorch, "Introducing Async Tensor Parallelism in PyTorch",
2024). It acts only inside of `torch.compile`, and needs links among all ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.wrappers import tensor_parallel
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["AsyncTP"]

_WHY = Text(
    "The compiler cuts products into pieces itself; what that gives is not predicted, so it is not "
    "tried."
)


class AsyncTP(Change):
    """Overlap products with the collectives around them."""

    name = "async-tp"
    title = Text("asynchronous tensor parallelism")
    group = "distributed"
    numerics = "reordered"
    rank = 80

    def fits(self, case: ChangeCase) -> Fit:
        """Not made: its gain is not modelled."""
        return Fit(False, _WHY, relevant=tensor_parallel(case))

    def install(self, live: Live) -> None:
        """Refuse."""
        raise UnsupportedError(
            Text("Asynchronous tensor parallelism is not made from outside."),
            _WHY,
            Text(
                "Compile the model with torch._inductor.config._micro_pipeline_tp = True to try it."
            ),
        )


register(AsyncTP())
