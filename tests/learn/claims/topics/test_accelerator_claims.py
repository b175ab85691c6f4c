"""Accelerators of AMD, AWS, Huawei, Meta, Microsoft: verdicts and values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.accelerator_claims import BOOK

KNOWN = {
    "E-003": ("imprecise", (313 / 312, 1.6 / 2.039)),
    "E-011": ("wrong", (2,)),
    "E-012": (
        "depends",
        (100 * (190 / 1.34 / (989.4 / 6.88) - 1), 100 * (190 / 1.34 / (312 / 4.0966) - 1)),
    ),
    "E-016": ("right", (65e6 / 667,)),
    "E-026": ("imprecise", (354 / 102.4, 2, 204.8 / 176)),
    "E-051": ("imprecise", (2 * 37600 / 989.4, 2 * 160 / 3.35)),
    "E-064": ("wrong", ()),
    "E-068": ("right", ()),
    "E-075": ("wrong", ()),
    "E-015": ("cannot say", ()),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "accelerators"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
