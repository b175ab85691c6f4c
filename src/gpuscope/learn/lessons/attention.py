"""Lesson: attention and FlashAttention."""

from __future__ import annotations

from gpuscope.document.blocks import Explanation
from gpuscope.document.text import Text
from gpuscope.explanation.registry import explain
from gpuscope.learn.lessons.parts import sections
from gpuscope.learn.lessons.registry import lesson


@lesson(
    "attention",
    10,
    Text("Attention and FlashAttention"),
    Text("Why is the same formula much faster when nothing is written down?"),
)
def attention() -> Explanation:
    """Make the lesson."""
    one = explain("attention", 1, 32, 4096, 128, causal=True, on="h200")
    return Explanation(
        topic="lesson",
        title=Text("Attention"),
        summary=(
            Text(
                "Attention compares every token with every other: S² scores for each head. Written "
                "to memory and read again, they cost far more than the arithmetic."
            ),
            Text(
                "FlashAttention works tile by tile with a running maximum and sum, and never "
                "writes the scores: as exact as before, with memory that grows with S instead of "
                "S²."
            ),
            *one.summary[1:3],
        ),
        sections=sections(one, "Tiles", "What fusing saves", "Prefill"),
        commands=(
            "gpuscope explain attention --heads 32 --seq 8192 --head-dim 128 --causal --on h200",
            "gpuscope predict gpt2 --task train --attention eager --on h200",
        ),
        sources=(
            "T. Dao et al., FlashAttention: Fast and Memory-Efficient Exact Attention with "
            "IO-Awareness, NeurIPS 2022; T. Dao, FlashAttention-2, 2023",
            *one.sources,
        ),
        assumptions=one.assumptions,
    )
