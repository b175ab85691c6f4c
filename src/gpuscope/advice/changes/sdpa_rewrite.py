"""Attention written by hand, in the user's own source, becomes the fused operator.

Softmax of q k^T writes and reads a square of scores several times; a fused kernel keeps it on chip
(Dao et al., "FlashAttention", 2022). What the source says is followed exactly: see
`gpuscope.advice.source.attention`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuscope.advice.registry import register
from gpuscope.advice.source.attention import attention_edits, functions_with_attention
from gpuscope.advice.source.source_change import SourceChange, is_own, own_functions
from gpuscope.advice.types import ChangeCase, Edit, Numerics
from gpuscope.document.text import Text

__all__ = ["SdpaRewrite"]


class SdpaRewrite(SourceChange):
    """Call the fused attention where the source spells attention out."""

    name = "sdpa-rewrite"
    title = Text("fused attention for hand-written attention")
    group = "operators"
    numerics: Numerics = "reordered"
    rank = 30
    nothing = Text("Your own source has no hand-written attention that can be replaced safely.")
    failed = (
        "No hand-written attention could be replaced.",
        "The source that runs has none that can be followed.",
        "Call torch.nn.functional.scaled_dot_product_attention yourself.",
    )

    def candidates(self, text: str) -> Sequence[Any]:
        """See `gpuscope.advice.source.attention`."""
        return functions_with_attention(text)

    def rewritten(self, file: str, text: str, function: Any) -> tuple[Edit, ...]:
        """See there."""
        return attention_edits(file, text, function)

    def reason(self, case: ChangeCase) -> Text:
        """Scores go through memory."""
        return Text(
            "Attention is written by hand: its square of scores goes through memory several times."
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

    def risk(self, case: ChangeCase) -> Text | None:
        """Dropout draws other numbers, and rows without any key become zero."""
        return Text("Dropout inside of attention draws other random numbers.")


register(SdpaRewrite())
