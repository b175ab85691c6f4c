"""Software and code: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.software_claims import BOOK

KNOWN = {
    "A-039": ("right", ()),
    "A-041": ("wrong", ()),
    "B-010": ("wrong", ()),
    "B-011": ("imprecise", ()),
    "C-048": ("imprecise", ()),
    "D-002": ("wrong", ()),
    "D-010": ("wrong", ()),
    "D-011": ("wrong", ()),
    "D-012": ("wrong", ()),
    "D-014": ("right", (10_000,)),
    "D-016": ("imprecise", ()),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "software"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
