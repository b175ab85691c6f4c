"""What is simulated is what can still win, or is the first of its devices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made import asked, judged

from gpuscope.planning.hopes import for_the_front, lost, work_of

BEST = judged(1.0, "8xh200")
SMALL = judged(2.0, "4xh200")


@pytest.mark.parametrize(
    ("composed_s", "expected"),
    [
        (0.9, False),
        (1.005, False),  # a composed step is 1 % too long at most
        (1.02, True),
        (None, False),
    ],
)
def test_only_what_may_be_better_is_simulated(composed_s: float | None, expected: bool) -> None:
    candidate = judged(1.0, "8xh200", tp=2, dp=4).candidate
    assert lost(asked(), candidate, composed_s, [BEST]) is expected


def test_what_may_tie_is_simulated_where_it_is_simpler() -> None:
    split = judged(1.0, "8xh200", tp=2, dp=4)
    # A tie is 0.04 √(1 + 1 − 1.8) = 1.8 % wide.
    assert not lost(asked(), BEST.candidate, 1.02, [split])
    assert lost(asked(), BEST.candidate, 1.1, [split])
    # The simplest of the ties so far is what would be taken.
    plain = judged(1.015, "8xh200", dp=8)
    alike = judged(1.0, "8xh200", dp=8, fsdp="zero1").candidate
    assert lost(asked(), alike, 1.028, [split, plain])
    assert not lost(asked(), alike, 1.024, [split, plain])


def test_deep_pipelines_are_composed_less_well() -> None:
    deep = judged(1.0, "8x8xh200", pp=16, dp=4).candidate
    known = [judged(1.0, "8x8xh200")]
    assert not lost(asked(devices="64"), deep, 1.03, known)
    assert lost(asked(devices="64"), judged(1.0, "8x8xh200", dp=64).candidate, 1.03, known)
    assert lost(asked(devices="64"), deep, 1.05, known)


def test_the_front_has_the_best_of_half_as_many_clusters() -> None:
    question = asked(devices="1..8", simulate=4)
    assert for_the_front(question) == 2
    assert not lost(question, SMALL.candidate, 2.0, [BEST])  # the second number of devices
    third = judged(4.0, "2xh200").candidate
    assert lost(question, third, 4.0, [BEST, SMALL])
    assert not lost(question, third, 4.0, [])  # nothing is known yet


def test_what_is_slower_and_takes_more_of_the_same_devices_is_not_on_the_front() -> None:
    question = asked(on="h200,h100", devices="1..8", simulate=4)
    assert lost(question, SMALL.candidate, 2.1, [BEST])
    assert not lost(question, SMALL.candidate, 2.0, [BEST])
    other = judged(1.0, "4xh100").candidate  # its hours have another price
    assert not lost(question, other, 2.1, [BEST])


def test_a_pipeline_is_as_much_work_as_its_passes() -> None:
    assert work_of(BEST.candidate.plan) == 1
    deep = judged(1.0, "64x8xh200", pp=64, dp=8, microbatches=512).candidate.plan
    assert work_of(deep) == 64 * (128 + 192)
    assert work_of(replace(deep, microbatches=256)) == 64 * 256
