"""A loop over experts in the user's own source becomes grouped products.

The loop asks the device how many tokens each expert has (the host waits), and multiplies small
matrices one after the other. Sorted by expert, all tokens go through one grouped product a linear
layer (`torch._grouped_mm`). What the source says is followed exactly: see
`gpuscope.advice.experts_source`; what runs instead: `gpuscope.advice.grouped_loop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuscope.advice.experts_source import expert_edits, functions_with_experts
from gpuscope.advice.registry import register
from gpuscope.advice.source_change import SourceChange
from gpuscope.advice.types import Case, Edit, Numerics
from gpuscope.explain.types import Words

__all__ = ["ExpertsRewrite"]


class ExpertsRewrite(SourceChange):
    """Multiply the tokens of all experts at once where the source loops over experts."""

    name = "experts-rewrite"
    title = Words("grouped products for a loop over experts", "专家循环改用分组矩阵乘")
    group = "operators"
    numerics: Numerics = "reordered"
    rank = 30
    nothing = Words(
        "Your own source has no loop over experts that can be replaced safely.",
        "您的源代码里没有可以安全替换的专家循环。",
    )
    failed = (
        "No loop over experts could be replaced.",
        "The source that runs has none that can be followed.",
        "Sort tokens by expert and call torch._grouped_mm yourself.",
    )

    def candidates(self, text: str) -> Sequence[Any]:
        """See `gpuscope.advice.experts_source`."""
        return functions_with_experts(text)

    def rewritten(self, file: str, text: str, function: Any) -> tuple[Edit, ...]:
        """See there."""
        return expert_edits(file, text, function)

    def reason(self, case: Case) -> Words:
        """The host waits for each expert's count."""
        ops = case.program.ops if case.program is not None else ()
        waits = sum(op.sync == "nonzero" for op in ops)
        return Words(
            f"Experts run one after another, and the host waits {waits} times a step to learn"
            " how many tokens each one gets.",
            f"专家逐个运行，主机每步等待 {waits} 次才知道各专家分到多少词元。",
        )

    def price(self, case: Case) -> Words | None:
        """The new line calls gpuscope; weights are stacked for the step."""
        return Words(
            "The new line imports gpuscope; a copy of each layer's expert weights is made a step.",
            "新的一行会导入 gpuscope；每步都会复制一份各层的专家权重。",
        )

    def risk(self, case: Case) -> Words | None:
        """An expert without tokens has gradients of zero, not none; dropout draws anew."""
        return Words(
            "An expert that gets no token has a gradient of zero where a loop that skips it leaves"
            " none; dropout inside of experts draws other random numbers.",
            "没有分到词元的专家，梯度为零（跳过它的循环则没有梯度）；专家内部的 dropout 会取到"
            "不同的随机数。",
        )


register(ExpertsRewrite())
