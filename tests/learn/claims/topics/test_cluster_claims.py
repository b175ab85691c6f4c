"""Dojo and clusters: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.cluster_claims import BOOK

KNOWN = {
    "E-032": ("right", (25,)),
    "E-033": ("wrong", ()),
    "E-034": ("right", (25 * 354 * 1.25e-3,)),
    "E-035": ("right", (3000,)),
    "E-036": ("right", (3000 * 354,)),
    "E-037": ("right", (3000 * 362e-6,)),
    "E-038": ("right", (3000 * 354 * 1.25e-6,)),
    "E-041": ("right", (5760,)),
    "E-060": ("imprecise", (4, 8)),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "clusters"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
