"""Links: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.interconnect_claims import BOOK

KNOWN = {
    "C-015": ("wrong", (2 * 16 * 16 / 8 * 128 / 130,)),
    "C-016": ("wrong", (2 * 16 * 32 / 8 * 128 / 130,)),
    "C-017": ("wrong", (2 * 16 * 64 / 8 * 242 / 256,)),
    "C-018": ("right", (2,)),
    "C-022": ("wrong", (450 / 63,)),
    "A-044": ("right", (450 / 63,)),
    "E-054": ("right", (2 * 18 * 25,)),
    "E-059": ("right", (16 * 6.25 * 8,)),
    "B-007": ("imprecise", (200, 400, 800)),
    "A-033": ("wrong", ()),
    "D-001": ("wrong", ()),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "interconnect"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
