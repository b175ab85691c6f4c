"""Tensor cores and precision: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.precision_claims import BOOK

KNOWN = {
    "A-020": ("imprecise", (125e3 / (80 * 8 * 1.53 * 2), 64, 312e3 / (108 * 4 * 1.41 * 2))),
    "A-021": ("depends", (989.4 / 125, 1978.9 / 125, 14000 / 125)),
    "A-023": ("wrong", (2500 / 989.4, 10000 / 1978.9, 8 / 3.35)),
    "A-040": ("right", (0.5,)),
    "B-005": ("imprecise", ()),
    "C-005": ("imprecise", (16, 989.4 / 66.9, 2)),
    "C-039": ("right", (70,)),
    "D-006": ("right", ()),
    "D-007": ("wrong", ()),
    "E-088": ("right", ()),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "precision"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
