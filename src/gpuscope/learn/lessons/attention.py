"""Lesson: attention and FlashAttention."""

from __future__ import annotations

from gpuscope.explain.registry import explain
from gpuscope.explain.types import Explanation, Words
from gpuscope.learn.lessons.parts import sections
from gpuscope.learn.lessons.registry import lesson


@lesson(
    "attention",
    10,
    Words("Attention and FlashAttention", "注意力与 FlashAttention"),
    Words(
        "Why is the same formula much faster when nothing is written down?",
        "同一个公式，为什么不把中间结果写出来就快得多？",
    ),
)
def attention() -> Explanation:
    """Make the lesson."""
    one = explain("attention", 1, 32, 4096, 128, causal=True, on="h200")
    return Explanation(
        topic="lesson",
        title=Words("Attention", "注意力"),
        summary=(
            Words(
                "Attention compares every token with every other: S² scores for each head. Written "
                "to memory and read again, they cost far more than the arithmetic.",
                "注意力把每个词元与其他所有词元比较：每个头有 S² 个分数。把它们写入显存再读回，"
                "代价远高于运算本身。",
            ),
            Words(
                "FlashAttention works tile by tile with a running maximum and sum, and never "
                "writes "
                "the scores: as exact as before, with memory that grows with S instead of S².",
                "FlashAttention 逐块计算，维护滚动的最大值与和，从不写出分数：结果同样精确，"
                "显存占用随 S 而不是 S² 增长。",
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
