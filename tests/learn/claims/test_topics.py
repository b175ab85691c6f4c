"""Every topic: verdicts and true values worked out by hand."""

from __future__ import annotations

import pytest

from gpuscope.learn.claims.registry import TOPICS, all_claims, judged

KNOWN = {
    # accelerator
    "E-003": ("imprecise", (313 / 312, 1.6 / 2.039)),
    "E-011": ("wrong", (2,)),
    "E-012": (
        "depends",
        (100 * (190 / 1.34 / (989.4 / 6.88) - 1), 100 * (190 / 1.34 / (312 / 4.0966) - 1)),
    ),
    "E-016": ("right", (65e6 / 667,)),
    "E-026": ("imprecise", (354 / 102.4, 2, 204.8 / 176)),
    "E-050": ("cannot say", ()),
    "E-051": ("imprecise", (2 * 37600 / 989.4, 2 * 160 / 3.35)),
    "E-064": ("wrong", ()),
    "E-068": ("right", ()),
    "E-075": ("wrong", ()),
    "E-015": ("cannot say", ()),
    # cluster
    "E-032": ("right", (25,)),
    "E-033": ("wrong", ()),
    "E-034": ("right", (25 * 354 * 1.25e-3,)),
    "E-035": ("right", (3000,)),
    "E-036": ("right", (3000 * 354,)),
    "E-037": ("right", (3000 * 362e-6,)),
    "E-038": ("right", (3000 * 354 * 1.25e-6,)),
    "E-041": ("right", (5760,)),
    "E-060": ("imprecise", (4, 8)),
    # device memory
    "A-010": ("right", (1024, 2048)),
    "A-011": ("imprecise", (8 * 2039 / 5120, 8 * 3350 / 5120, 8 * 8000 / 8192)),
    "A-012": ("right", ()),
    "A-013": ("imprecise", (32 * 16 / 8, 864, 320)),
    "C-006": ("imprecise", (32, 288)),
    "C-007": ("right", (384 * 21 / 8 / 1000,)),
    "C-014": ("imprecise", ()),
    "C-012": ("imprecise", (384 / 32, 5120 / 1024 * 16)),
    "C-044": ("right", (7 / 500,)),
    "E-073": ("wrong", (8, 8)),
    "E-078": ("imprecise", (192, 288)),
    # energy
    "A-065": ("imprecise", (250, 300, 400)),
    "A-067": ("wrong", (1.75, 350 / 300)),
    "A-068": ("wrong", (1000, 1200, 1100, 1400)),
    "A-069": ("imprecise", ()),
    "A-071": ("imprecise", (600 / 6.5,)),
    "A-072": ("right", (1000 * 730 * 6.88e-6,)),
    "E-065": ("wrong", (313 / 400,)),
    "E-066": ("wrong", (312 / 400, 312 / 300)),
    # interconnect
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
    "D-001": ("imprecise", ()),
    # kernel
    "A-027": ("right", (315.08,)),
    "A-028": ("right", ()),
    "A-029": ("right", (0.25,)),
    "B-012": ("right", ()),
    "B-013": ("right", ()),
    "C-046": ("wrong", (100 * 4 * 400e9 / 165.2e12,)),
    "C-049": ("wrong", (1024,)),
    "C-050": ("wrong", (16 * 4,)),
    "C-062": ("right", (256,)),
    "C-063": ("wrong", ()),
    "D-005": ("imprecise", ()),
    # model memory
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
    # nvidia
    "A-005": ("right", (108,)),
    "A-007": ("imprecise", ()),
    "A-017": ("right", (128 * 128,)),
    "A-018": ("wrong", (165.2,)),
    "A-025": ("imprecise", (148 * 4, 148 * 4, 160 * 4)),
    "A-050": ("right", (208 / 80,)),
    "C-002": ("imprecise", (132, 114)),
    "C-028": ("wrong", (8,)),
    "C-029": ("right", (2 * 16384 * 2.52e-3,)),
    "D-004": ("wrong", ()),
    "E-063": ("imprecise", (3.35,)),
    "E-069": ("right", (5120 / 1024,)),
    # precision
    "A-020": ("imprecise", (125e3 / (80 * 8 * 1.53 * 2), 64, 312e3 / (108 * 4 * 1.41 * 2))),
    "A-021": ("depends", (989.4 / 125, 1978.9 / 125, 14000 / 125)),
    "A-023": ("depends", ()),
    "A-040": ("right", (0.5,)),
    "B-005": ("imprecise", ()),
    "C-005": ("imprecise", (16, 989.4 / 66.9, 2)),
    "C-039": ("right", (70,)),
    "D-006": ("right", ()),
    "D-007": ("wrong", ()),
    "E-088": ("right", ()),
    # processor
    "A-001": ("imprecise", (16, 192)),
    "A-002": ("cannot say", ()),
    "A-004": ("right", (40 * 1024, 108 * 2048, 132 * 2048)),
    "A-009": ("right", (32, 32, 32)),
    "B-003": ("imprecise", ()),
    "C-025": ("imprecise", ()),
    "C-026": ("wrong", (192 * 16, 16 * 16)),
    "C-027": ("wrong", ()),
    # software
    "A-039": ("right", ()),
    "A-041": ("wrong", ()),
    "B-010": ("wrong", ()),
    "B-011": ("imprecise", ()),
    "C-048": ("imprecise", ()),
    "D-002": ("wrong", ()),
    "D-010": ("wrong", ()),
    "D-011": ("wrong", ()),
    "D-012": ("wrong", ()),
    "D-013": ("wrong", ()),
    "D-014": ("right", (10_000,)),
    "D-016": ("imprecise", ()),
    # speed
    "A-015": ("wrong", (4800 / (12 * 8 * 5.6),)),
    "B-015": ("right", ()),
    "C-032": ("wrong", (66.67 * 0.0012,)),
    "C-035": ("wrong", (1008 / (2 * 8 * 5.6),)),
    "C-054": ("wrong", ()),
    "C-058": ("right", (8.36,)),
    "C-055": ("cannot say", ()),
    "C-057": ("cannot say", ()),
    "C-059": ("depends", ()),
    "C-060": ("right", (100 * 3.84 / 8.36,)),
    "D-008": ("imprecise", ()),
    "A-034": ("cannot say", ()),
    # tpu
    "A-054": ("imprecise", (275 / 192 / (312 / 400), 275 / 192 / (989.4 / 700))),
    "A-055": ("imprecise", (459 / 275, 197 / 275)),
    "E-001": ("right", (1.2, 1.7)),
    "E-018": ("imprecise", (459 / 275, 918 / 275)),
    "E-019": ("right", (95 / 32,)),
    "E-020": ("right", (8960,)),
    "E-023": ("imprecise", (2.8, 1.9)),
    "E-024": ("imprecise", (2.8 / (4.2 / 3.22),)),
    "E-058": ("right", ()),
}
"""By claim: the verdict, the true values in the claim's unit."""


@pytest.mark.parametrize("id", KNOWN)
def test_known_answers(id: str) -> None:
    verdict, values = KNOWN[id]
    found = judged(id).verdict
    assert found.verdict == verdict
    assert found.values == pytest.approx(values, rel=2e-3)


def test_every_topic_has_its_file_and_known_answers() -> None:
    known = {claim.topic.key for claim in all_claims() if claim.id in KNOWN}
    assert len(known) == len(list(TOPICS.glob("*.toml")))
    assert known == {claim.topic.key for claim in all_claims()}
