"""A loop over experts in the user's own source becomes grouped products.

The loop asks the device how many tokens each expert has (the host waits), and multiplies small
matrices one after the other. Sorted by expert, all tokens go through one grouped product a linear
layer (`torch._grouped_mm`). What the source says is followed exactly: see
`gpuscope.advice.source.expert_loops`; what runs instead: `gpuscope.runtime.grouped_experts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuscope.advice.registry import register
from gpuscope.advice.source.expert_loops import expert_edits, functions_with_experts
from gpuscope.advice.source.source_change import SourceChange
from gpuscope.advice.types import ChangeCase, Edit, Numerics
from gpuscope.document.text import Text

__all__ = ["ExpertsRewrite"]


class ExpertsRewrite(SourceChange):
    """Multiply the tokens of all experts at once where the source loops over experts."""

    name = "experts-rewrite"
    title = Text("grouped products for a loop over experts")
    group = "operators"
    numerics: Numerics = "reordered"
    rank = 30
    nothing = Text("Your own source has no loop over experts that can be replaced safely.")
    failed = (
        "No loop over experts could be replaced.",
        "The source that runs has none that can be followed.",
        "Sort tokens by expert and call torch._grouped_mm yourself.",
    )

    def candidates(self, text: str) -> Sequence[Any]:
        """See `gpuscope.advice.source.expert_loops`."""
        return functions_with_experts(text)

    def rewritten(self, file: str, text: str, function: Any) -> tuple[Edit, ...]:
        """See there."""
        return expert_edits(file, text, function)

    def reason(self, case: ChangeCase) -> Text:
        """The host waits for each expert's count."""
        ops = case.program.ops if case.program is not None else ()
        waits = sum(op.sync == "nonzero" for op in ops)
        return Text(
            "Experts run one after another, and the host waits {waits} times a step to learn how "
            "many tokens each one gets.",
            waits=waits,
        )

    def price(self, case: ChangeCase) -> Text | None:
        """The new line calls gpuscope; weights are stacked for the step."""
        return Text(
            "The new line imports gpuscope; a copy of each layer's expert weights is made a step."
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """An expert without tokens has gradients of zero, not none; dropout draws anew."""
        return Text(
            "An expert that gets no token has a gradient of zero where a loop that skips it leaves "
            "none; dropout inside of experts draws other random numbers."
        )


register(ExpertsRewrite())
