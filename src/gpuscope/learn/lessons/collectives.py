"""Lesson: collectives, rings and buses."""

from __future__ import annotations

from gpuscope.explain.registry import explain
from gpuscope.explain.types import Explanation, Words
from gpuscope.learn.lessons.parts import sections
from gpuscope.learn.lessons.registry import lesson


@lesson(
    "collectives",
    13,
    Words("Collectives", "集合通信"),
    Words(
        "Why does an all-reduce among 64 GPUs take hardly longer than among 8?",
        "为什么 64 个 GPU 的 all-reduce 几乎不比 8 个慢？",
    ),
)
def collectives() -> Explanation:
    """Make the lesson."""
    one = explain("collective", "all_reduce", "64MB", on="8xh200")
    return Explanation(
        topic="lesson",
        title=Words("Collectives", "集合通信"),
        summary=(
            Words(
                "In a ring, each GPU passes a part of the message to its neighbour: 2 (n - 1) "
                "steps, "
                "each with 1/n of the data. What each GPU sends is 2 (n - 1) / n of the message: "
                "hardly more with more GPUs.",
                "在环中，每个 GPU 把消息的一部分传给邻居：共 2 (n - 1) 步，每步 1/n 的数据。"
                "每个 GPU 发送的数据是消息的 2 (n - 1) / n：GPU 再多也几乎不变。",
            ),
            Words(
                "Time is steps times latency (alpha) plus bytes over bandwidth (beta). Small "
                "messages "
                "pay for the steps: trees and direct ways have fewer.",
                "时间等于步数乘以延迟（alpha）加上字节数除以带宽（beta）。小消息主要为步数付出："
                "树形和直接方式的步数更少。",
            ),
            *one.summary[:2],
        ),
        sections=sections(
            one, "The steps", "What it costs", "Algorithm", "Size and ranks", "What hides", "Move"
        ),
        commands=(
            "gpuscope explain collective all_reduce 64MB --on 8xh200",
            "gpuscope explain collective all_gather 1MB --on 64xh100",
        ),
        sources=one.sources,
        assumptions=one.assumptions,
    )
