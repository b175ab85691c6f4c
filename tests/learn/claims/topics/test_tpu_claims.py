"""TPUs: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.tpu_claims import BOOK

KNOWN = {
    "A-054": ("imprecise", (275 / 192 / (312 / 400), 275 / 192 / (989.4 / 700))),
    "A-055": ("imprecise", (459 / 275, 197 / 275)),
    "E-001": ("right", (1.2, 1.7)),
    "E-018": ("imprecise", (459 / 275, 918 / 275)),
    "E-019": ("right", (95 / 32,)),
    "E-020": ("right", (8960,)),
    "E-024": ("imprecise", (2.8 / (4.2 / 3.22),)),
    "E-058": ("right", ()),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "tpu"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
