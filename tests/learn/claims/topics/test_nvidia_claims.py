"""NVIDIA devices: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.topics.nvidia_claims import BOOK

KNOWN = {
    "A-005": ("right", (108,)),
    "A-007": ("imprecise", ()),
    "A-017": ("right", (128 * 128,)),
    "A-018": ("wrong", (165.2,)),
    "A-025": ("imprecise", (148 * 4, 160 * 4)),
    "A-050": ("right", (208 / 80,)),
    "C-002": ("imprecise", (132, 114)),
    "C-028": ("wrong", (8,)),
    "C-029": ("right", (2 * 16384 * 2.52e-3,)),
    "D-004": ("wrong", ()),
    "E-063": ("imprecise", (3.35,)),
    "E-069": ("right", (5120 / 1024,)),
}


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = next(claim for claim in BOOK.claims if claim.id == id).verdict()
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_the_topic() -> None:
    assert BOOK.topic.key == "nvidia"
    assert {claim.topic for claim in BOOK.claims} == {BOOK.topic}
