"""Models, KV cache and attention: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.model_memory_claims import BOOK

KNOWN = {
    "A-058": ("imprecise", (187,)),  # 16e12 / (80 * 2**30) = 186.3
    "A-059": ("right", (70.553706496 * 2,)),
    "A-061": ("right", (2 * 80 * 8 * 128 * 2 * 131072 / 2**30,)),
    "A-063": ("right", (16,)),
    "C-009": ("imprecise", (7, 7.875, 14.770033664 * 4.5 / 8)),
    "C-010": ("wrong", (2,)),
    "C-040": ("imprecise", (32 * 9 + 1, 80 * 9 + 1, 126 * 9 + 1)),
    "C-061": ("imprecise", ()),
    "E-080": ("right", (3,)),
    "E-081": ("right", ()),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "models"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
