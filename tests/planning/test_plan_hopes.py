"""What is simulated is what can still win, or is the first of its devices."""

from __future__ import annotations

import pytest
from made import asked, judged

from gpuscope.planning.hopes import for_the_front, lost, work_of

BEST = judged(1.0, "8xh200")
SMALL = judged(2.0, "4xh200")


@pytest.mark.parametrize(
    ("composed_s", "expected"),
    [
        (0.9, False),
        # A tie is 0.04 √(1 + 1 − 1.8) = 1.8 % wide, and a composed step 1 % too long at most.
        (1.02, False),
        (1.10, True),
        (None, False),
    ],
)
def test_only_what_may_still_tie_is_simulated(composed_s: float | None, expected: bool) -> None:
    candidate = judged(1.0, "8xh200", tp=2, dp=4).candidate
    assert lost(asked(), candidate, composed_s, [BEST]) is expected


def test_deep_pipelines_are_composed_less_well() -> None:
    deep = judged(1.0, "8x8xh200", pp=16, dp=4).candidate
    known = [judged(1.0, "8x8xh200")]
    assert not lost(asked(devices="64"), deep, 1.05, known)
    assert lost(asked(devices="64"), judged(1.0, "8x8xh200", dp=64).candidate, 1.05, known)
    assert lost(asked(devices="64"), deep, 1.1, known)


def test_the_front_has_the_best_of_half_as_many_clusters() -> None:
    question = asked(devices="1..8", simulate=4)
    assert for_the_front(question) == 2
    assert not lost(question, SMALL.candidate, 2.0, [BEST])  # the second number of devices
    third = judged(4.0, "2xh200").candidate
    assert lost(question, third, 4.0, [BEST, SMALL])
    assert not lost(question, third, 4.0, [])  # nothing is known yet


def test_a_pipeline_is_as_much_work_as_its_passes() -> None:
    assert work_of(BEST.candidate.plan) == 1
    deep = judged(1.0, "64x8xh200", pp=64, dp=8).candidate.plan
    assert work_of(deep) == 64 * (128 + 192)
