"""Sequence parallelism beside tensor parallelism: norms and residuals share the tokens, too.

Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022): the
all-reduce after each block becomes a reduce-scatter and an all-gather of the same bytes; the
activations between are stored once instead of on each rank.
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

__all__ = ["SequenceParallel"]

_WHY = Words(
    "Which modules share the tokens is decided by the code's own plan; for a ready-made job it is"
    " an option of the plan.",
    "哪些模块切分词元由代码自己的并行方案决定；内置并行作业可用方案选项调整。",
)


class SequenceParallel(Change):
    """Share the tokens between tensor parallel blocks."""

    name = "sequence-parallel"
    title = Words("sequence parallelism", "序列并行")
    group = "distributed"
    numerics = "reordered"

    def fits(self, case: Case) -> Fit:
        """Never from outside: a plan for `parallelize_module` names modules and layouts."""
        return Fit(False, _WHY, relevant=tensor_parallel(case))

    def install(self, live: Live) -> None:
        """Refuse."""
        raise UnsupportedError(
            "Sequence parallelism cannot be added from outside.", _WHY.en,
            "Add SequenceParallel() for the norms to the plan of parallelize_module.",
        )  # fmt: skip


register(SequenceParallel())
