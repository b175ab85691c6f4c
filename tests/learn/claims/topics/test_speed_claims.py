"""Times and speed-ups: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.speed_claims import BOOK

KNOWN = {
    "A-015": ("wrong", (4800 / (12 * 8 * 5.6),)),
    "B-015": ("right", ()),
    "C-032": ("wrong", (66.67 * 0.0012,)),
    "C-035": ("wrong", (1008 / (2 * 8 * 5.6),)),
    "C-054": ("wrong", ()),
    "C-058": ("right", (8.36,)),
    "C-059": ("wrong", ()),
    "C-060": ("right", (100 * 3.84 / 8.36,)),
    "D-008": ("imprecise", ()),
    "A-034": ("cannot say", ()),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "speed"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
