"""Split conformal factors: by hand, by exchangeable draws, and where nothing is to be done."""

import math
import random
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.harvest.intervals import Scored, factor, one_family_out, score, widths, within  # noqa: E402


def test_a_score_counts_half_widths_on_its_own_side():
    assert score(12.0, 10.0, 9.0, 14.0) == 0.5
    assert score(8.0, 10.0, 9.0, 14.0) == 2.0
    assert score(10.0, 10.0, 10.0, 10.0) == 0.0
    assert score(11.0, 10.0, 10.0, 10.0) == math.inf


def test_the_factor_is_the_rank_that_conformal_prediction_asks_for():
    # n = 9: ceil(0.8 * 10) = 8th smallest; n = 4: the 4th.
    assert factor([9, 1, 8, 2, 7, 3, 6, 4, 5]) == 8
    assert factor([1.0, 4.0, 2.0, 3.0]) == 4.0
    assert within([0.5, 1.0, 1.5, 2.0]) == 0.5
    assert within([0.5, 1.0, 1.5, 2.0], 2.0) == 1.0


def test_new_draws_are_held_as_often_as_stated():
    draw = random.Random(0)
    held = [draw.gauss(0, 3) for _ in range(4000)]
    by = factor([abs(draw.gauss(0, 3)) for _ in range(1000)])
    assert within([abs(x) for x in held], by) == pytest.approx(0.8, abs=0.03)


def calls(kind, family, held_out, scores):
    return [Scored(kind, frozenset([family]), held_out, s) for s in scores]


def test_a_family_that_errs_otherwise_is_held_less_by_the_others():
    alike = calls("copy", "a", False, [1.0] * 20) + calls("copy", "b", False, [1.0] * 20)
    assert one_family_out(alike) == 1.0
    other = alike + calls("copy", "c", False, [5.0] * 10)
    assert one_family_out(other) == pytest.approx(40 / 50)


def test_only_what_is_off_is_widened_and_the_held_out_judge():
    wide = calls("gather", "a", False, [0.5] * 8 + [2.0] * 8 + [3.0] * 4)
    wide += calls("gather", "b", True, [0.5] * 10 + [2.5] * 10)
    fine = calls("matmul", "a", False, [0.5] * 16 + [2.0] * 4)
    fine += calls("matmul", "b", True, [0.5] * 20)
    few = calls("sort", "a", False, [9.0] * 3)
    found = widths(wide + fine + few)
    assert set(found) == {"gather", "matmul"}
    assert found["matmul"]["factor"] == 1.0
    assert found["gather"]["factor"] == 3.0  # ceil(0.8 * 21) = 17th of 20
    assert found["gather"]["held_out_within"] == 0.5
    assert found["gather"]["held_out_within_after"] == 1.0
