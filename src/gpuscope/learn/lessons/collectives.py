"""Lesson: collectives, rings and buses."""

from __future__ import annotations

from gpuscope.document.blocks import Explanation
from gpuscope.document.text import Text
from gpuscope.explanation.registry import explain
from gpuscope.learn.lessons.parts import sections
from gpuscope.learn.lessons.registry import lesson


@lesson(
    "collectives",
    13,
    Text("Collectives"),
    Text("Why does an all-reduce among 64 GPUs take hardly longer than among 8?"),
)
def collectives() -> Explanation:
    """Make the lesson."""
    one = explain("collective", "all_reduce", "64MB", on="8xh200")
    return Explanation(
        topic="lesson",
        title=Text("Collectives"),
        summary=(
            Text(
                "In a ring, each GPU passes a part of the message to its neighbour: 2 (n - 1) "
                "steps, each with 1/n of the data. What each GPU sends is 2 (n - 1) / n of the "
                "message: hardly more with more GPUs."
            ),
            Text(
                "Time is steps times latency (alpha) plus bytes over bandwidth (beta). Small "
                "messages pay for the steps: trees and direct ways have fewer."
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
