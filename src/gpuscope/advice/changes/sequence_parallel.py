"""Sequence parallelism beside tensor parallelism: norms and residuals share the tokens, too.

Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022): the
all-reduce after each block becomes a reduce-scatter and an all-gather of the same bytes; the
activations between are stored once instead of on each rank.
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

__all__ = ["SequenceParallel"]

_WHY = Text(
    "Which modules share the tokens is decided by the code's own plan; for a ready-made job it is "
    "an option of the plan."
)


class SequenceParallel(Change):
    """Share the tokens between tensor parallel blocks."""

    name = "sequence-parallel"
    title = Text("sequence parallelism")
    group = "distributed"
    numerics = "reordered"

    def fits(self, case: ChangeCase) -> Fit:
        """Never from outside: a plan for `parallelize_module` names modules and layouts."""
        return Fit(False, _WHY, relevant=tensor_parallel(case))

    def install(self, live: Live) -> None:
        """Refuse."""
        raise UnsupportedError(
            Text("Sequence parallelism cannot be added from outside."),
            _WHY,
            Text("Add SequenceParallel() for the norms to the plan of parallelize_module."),
        )


register(SequenceParallel())
