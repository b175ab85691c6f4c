"""Device memory: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.device_memory_claims import BOOK

KNOWN = {
    "A-010": ("right", (1024, 2048)),
    "A-011": ("imprecise", (8 * 2039 / 5120, 8 * 3350 / 5120, 8 * 8000 / 8192)),
    "A-012": ("right", ()),
    "A-013": ("imprecise", (32 * 16 / 8, 864, 320)),
    "C-006": ("imprecise", (32, 288)),
    "C-007": ("right", (384 * 21 / 8 / 1000,)),
    "C-012": ("imprecise", (384 / 32, 5120 / 1024 * 16)),
    "C-044": ("right", (7 / 500,)),
    "E-073": ("wrong", (8, 8)),
    "E-078": ("imprecise", (192, 288)),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "memory"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
