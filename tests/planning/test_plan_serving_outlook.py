"""What would halve a serving plan's cost, or make the second win: by hand."""

from __future__ import annotations

from typing import Any

from gpuscope.document.blocks import Paragraph
from gpuscope.document.text import render
from gpuscope.hardware import parse_target
from gpuscope.planning.serving.outlook import around_serving
from gpuscope.planning.serving.search import question_of_serving
from gpuscope.planning.serving.types import Offered, ServingChoice, ServingPlan


def _offered(target: str, usd: float, feasible: float, headroom: float) -> Offered:
    choice = ServingChoice(parse_target(target), 1, 1, "bfloat16", "bfloat16", 8192, 256)
    return Offered(
        choice=choice, ttft_s=0.1, tpot_s=0.01, headroom=headroom, feasible=feasible,
        usd_per_million=usd, simulated=True,
    )  # fmt: skip


def _said(best: Offered, *others: Offered) -> list[str]:
    question = question_of_serving("llama-3.1-8b", on="h100", devices="1", rate=4)
    given: dict[str, Any] = {"front": (best,), "judged": (best, *others), "rejected": ()}
    plan = ServingPlan(
        question=question, best=best, nearest=None, ties=(best,), candidates=2, **given
    )
    sections = around_serving(plan)
    blocks = [block for section in sections for block in section.blocks]
    return [render(block.text, "en") for block in blocks if isinstance(block, Paragraph)]


def test_a_dearer_second_wins_at_a_price() -> None:
    """Twice as dear a token on the other device: it wins at half its hour's price."""
    price = parse_target("h200").device.price_usd_per_hour
    assert price is not None
    said = _said(_offered("h100", 2.0, 0.9, 3.0), _offered("h200", 4.0, 0.95, 3.0))
    assert any("+100.0 %" in line for line in said)
    assert any(f"less than ${price / 2:.3g}" in line for line in said)
    assert any("Twice the requests" in line and "12 a second" in line for line in said)


def test_a_cheaper_second_would_have_to_be_surer() -> None:
    said = _said(_offered("h200", 4.0, 0.9, 1.2), _offered("h100", 3.0, 0.5, 1.1))
    assert any("$3.00 a million" in line for line in said)
    assert any("would have to be 80 % likely" in line for line in said)
    assert not any("Twice the requests" in line for line in said)


def test_alone_or_without_a_price_there_is_no_second() -> None:
    assert not any("costs" in line for line in _said(_offered("h100", 2.0, 0.9, 1.0)))
