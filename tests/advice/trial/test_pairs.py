"""Interleaving and judgement, with clocks made by hand."""

from __future__ import annotations

import random
import time

from gpuscope.advice.trial.pairs import (
    LEAST_PAIRS,
    MOST_PAIRS,
    Pairs,
    judged,
    steps_of_block,
    take_pairs,
)
from gpuscope.measurement.statistics import Interval


def far() -> float:
    return time.perf_counter() + 60


def test_order_changes_from_pair_to_pair() -> None:
    order = ""

    def before() -> float:
        nonlocal order
        order += "A"
        return 2.0

    def after() -> float:
        nonlocal order
        order += "B"
        return 1.0

    pairs = take_pairs(before, after, far())
    assert order == "ABBAABBAABBA"
    assert pairs.ratio.median == 2.0
    assert judged(pairs.ratio) == "kept"


def test_what_drifts_for_both_cancels() -> None:
    clock = 1.0

    def run(factor: float) -> float:
        nonlocal clock
        clock *= 1.01
        return clock * factor

    pairs = take_pairs(lambda: run(1.2), lambda: run(1.0), far())
    assert abs(pairs.ratio.median - 1.2) < 0.013


def test_equal_ones_are_not_kept() -> None:
    drawn = random.Random(1)
    pairs = take_pairs(lambda: drawn.gauss(1, 0.02), lambda: drawn.gauss(1, 0.02), far())
    assert judged(pairs.ratio) in ("even", "slower")
    assert LEAST_PAIRS <= len(pairs.before_s) <= MOST_PAIRS


def test_the_end_of_the_time_ends_it_after_the_least() -> None:
    drawn = random.Random(2)
    past = time.perf_counter() - 1
    pairs = take_pairs(lambda: drawn.uniform(1, 9), lambda: drawn.uniform(1, 9), past)
    assert len(pairs.before_s) == LEAST_PAIRS


def test_judgement() -> None:
    assert judged(Interval(1.1, 1.006, 1.2, 0.96)) == "kept"
    assert judged(Interval(1.1, 1.004, 1.2, 0.96)) == "even"
    assert judged(Interval(0.9, 0.8, 0.99, 0.96)) == "slower"
    assert judged(Interval(2.0, 1.9, 2.1, 0.5)) == "even"
    assert judged(Pairs([2.0], [1.0]).ratio) == "even"


def test_blocks_are_long_enough() -> None:
    assert steps_of_block(5.0) == 1
    assert steps_of_block(0.03) == 4
