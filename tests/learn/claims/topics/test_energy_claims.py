"""Power and cost: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.energy_claims import BOOK

KNOWN = {
    "A-065": ("imprecise", (250, 300, 400)),
    "A-067": ("wrong", (1.75, 350 / 300)),
    "A-068": ("wrong", (1000, 1200, 1100, 1400)),
    "A-069": ("imprecise", ()),
    "A-071": ("imprecise", (600 / 6.5,)),
    "A-072": ("right", (1000 * 730 * 6.88e-6,)),
    "E-065": ("wrong", (313 / 400,)),
    "E-066": ("wrong", (312 / 400, 312 / 300)),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "energy"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
