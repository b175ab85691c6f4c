"""Attention written by hand, in the user's own source, becomes the fused operator.

Softmax of q k^T writes and reads a square of scores several times; a fused kernel keeps it on chip
(Dao et al., "FlashAttention", 2022). What the source says is followed exactly: see
`gpuscope.advice.attention_source`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuscope.advice.attention_source import attention_edits, functions_with_attention
from gpuscope.advice.registry import register
from gpuscope.advice.source_change import SourceChange, is_own, own_functions
from gpuscope.advice.types import Case, Edit, Numerics
from gpuscope.explain.types import Words

__all__ = ["SdpaRewrite"]


class SdpaRewrite(SourceChange):
    """Call the fused attention where the source spells attention out."""

    name = "sdpa-rewrite"
    title = Words("fused attention for hand-written attention", "手写注意力改用融合算子")
    group = "operators"
    numerics: Numerics = "reordered"
    rank = 30
    nothing = Words(
        "Your own source has no hand-written attention that can be replaced safely.",
        "您的源代码里没有可以安全替换的手写注意力。",
    )
    failed = (
        "No hand-written attention could be replaced.",
        "The source that runs has none that can be followed.",
        "Call torch.nn.functional.scaled_dot_product_attention yourself.",
    )

    def candidates(self, text: str) -> Sequence[Any]:
        """See `gpuscope.advice.attention_source`."""
        return functions_with_attention(text)

    def rewritten(self, file: str, text: str, function: Any) -> tuple[Edit, ...]:
        """See there."""
        return attention_edits(file, text, function)

    def reason(self, case: Case) -> Words:
        """Scores go through memory."""
        return Words(
            "Attention is written by hand: its square of scores goes through memory several times.",
            "注意力是手写的：整个分数矩阵要在显存里反复读写。",
        )

    def functions(self, model: Any) -> Iterator[Any]:
        """Of whole modules that define the model's classes: attention is often a plain function."""
        spaces = {}
        for cls in {type(m) for m in model.modules()}:
            forward: Any = getattr(cls, "forward", None)
            if is_own(forward):
                spaces[id(forward.__globals__)] = forward.__globals__
        for space in spaces.values():
            for value in list(space.values()):
                if isinstance(value, type) and value.__module__ == space.get("__name__"):
                    yield from own_functions(value)
                elif is_own(value) and value.__globals__ is space:
                    yield value

    def risk(self, case: Case) -> Words | None:
        """Dropout draws other numbers, and rows without any key become zero."""
        return Words(
            "Dropout inside of attention draws other random numbers.",
            "注意力内部的 dropout 会取到不同的随机数。",
        )


register(SdpaRewrite())
