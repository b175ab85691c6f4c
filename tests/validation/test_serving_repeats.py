"""An oracle that knows all measurements but one repeat, by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation"))

from serving_repeats import Measured, asked


def test_equal_repeats_leave_nothing_to_lose() -> None:
    slow, quick = [Measured(0.008, 10.0)] * 2, [Measured(0.018, 30.0)] * 3
    # 10 ms: the slow one alone; 20, 30, 50 ms: both, and the other gives more.
    assert asked([slow, quick], 0) == [(False, 0.0)] * 4


def test_what_a_repeat_does_not_tell_is_lost() -> None:
    unsteady = [Measured(0.009, 20.0), Measured(0.012, 19.0)]
    steady = [Measured(0.0095, 10.0), Measured(0.0095, 10.0)]
    # The first left out: it is known as 12 ms, the steady one is taken, half is lost within 10 ms.
    (broken, lost), *_ = asked([unsteady, steady], 0)
    assert not broken
    assert lost == pytest.approx(0.5)
    # The second left out: known as 9 ms, taken, and 12 ms breaks 10 ms by more than a tenth.
    assert asked([unsteady, steady], 1)[0] == (True, 1.0)


def test_a_limit_that_nothing_keeps_is_no_question() -> None:
    assert asked([[Measured(0.9, 1.0)] * 2, [Measured(0.8, 1.0)] * 2], 0) == []
