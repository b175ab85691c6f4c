"""CPU and GPU: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.processor_claims import BOOK

KNOWN = {
    "A-001": ("imprecise", (16, 192)),
    "A-002": ("cannot say", ()),
    "A-004": ("right", (40 * 1024, 108 * 2048, 132 * 2048)),
    "A-009": ("right", (32, 32, 32)),
    "B-003": ("imprecise", ()),
    "C-025": ("imprecise", ()),
    "C-026": ("wrong", (192 * 16, 16 * 16)),
    "C-027": ("wrong", ()),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "processors"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
