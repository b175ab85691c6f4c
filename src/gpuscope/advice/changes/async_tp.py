"""Asynchronous tensor parallelism: products cut into pieces that overlap with their collectives.

`torch._inductor.config._micro_pipeline_tp` fuses all-gather with product and product with
reduce-scatter over symmetric memory (PyTorch, "Introducing Async Tensor Parallelism in PyTorch",
2024). It acts only inside of `torch.compile`, and needs links among all ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.advice.wrappers import tensor_parallel
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["AsyncTP"]

_WHY = Words(
    "The compiler cuts products into pieces itself; what that gives is not predicted, so it is not"
    " tried.",
    "由编译器自行切分矩阵乘；其收益无法预测，因此不尝试。",
)


class AsyncTP(Change):
    """Overlap products with the collectives around them."""

    name = "async-tp"
    title = Words("asynchronous tensor parallelism", "异步张量并行")
    group = "distributed"
    numerics = "reordered"
    rank = 80

    def fits(self, case: Case) -> Fit:
        """Not made: its gain is not modelled."""
        return Fit(False, _WHY, relevant=tensor_parallel(case))

    def install(self, live: Live) -> None:
        """Refuse."""
        raise UnsupportedError(
            "Asynchronous tensor parallelism is not made from outside.", _WHY.en,
            "Compile the model with torch._inductor.config._micro_pipeline_tp = True to try it.",
        )  # fmt: skip


register(AsyncTP())
