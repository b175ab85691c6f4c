"""Roofline, tiles, occupancy: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.kernel_claims import BOOK

KNOWN = {
    "A-027": ("right", (315.08,)),
    "A-028": ("right", ()),
    "A-029": ("right", (0.25,)),
    "B-012": ("right", ()),
    "B-013": ("right", ()),
    "C-046": ("wrong", (100 * 4 * 400e9 / 165.2e12,)),
    "C-049": ("wrong", (1024,)),
    "C-050": ("wrong", (512,)),
    "C-062": ("right", (256,)),
    "C-063": ("wrong", ()),
    "D-005": ("imprecise", ()),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "kernels"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
