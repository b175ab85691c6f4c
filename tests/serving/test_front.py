"""Requests that come at once, on their way through the one process that lets them in."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from fresh import bare, limits, linear

from gpuscope.serving.fleet import serve_all
from gpuscope.serving.front import TOGETHER, Front
from gpuscope.serving.requests import Requests


def test_they_come_out_together_when_all_work_is_done() -> None:
    front = Front()
    for each in range(5):
        front.add(each, 1.0, 0.25)
    assert len(front) == 5
    assert front.next_s == pytest.approx(2.25)
    assert front.out(2.2) == []
    assert front.out(2.25) == [0, 1, 2, 3, 4]
    assert (len(front), front.next_s) == (0, inf)


def test_one_that_comes_meanwhile_holds_up_those_before_it() -> None:
    front = Front()
    front.add(0, 0.0, 1.0)
    front.add(1, 0.9, 1.0)
    assert front.next_s == pytest.approx(2.0)
    front.add(2, 2.0, 1.0)  # those two are out by then
    assert front.next_s == pytest.approx(2.0)
    assert front.out(2.0) == [0, 1]
    assert front.next_s == pytest.approx(3.0)


def test_so_many_at_a_time_and_work_is_never_lost() -> None:
    front = Front()
    for each in range(TOGETHER + 3):
        front.add(each, 0.0, 0.5)
    assert front.next_s == pytest.approx(0.5 * TOGETHER)
    assert front.out(inf, 1) == [0]
    assert len(front.out(inf)) == TOGETHER + 2


def test_a_burst_waits_for_the_work_on_all_and_the_first_goes_alone() -> None:
    engine = replace(bare(), accept_s=0.01, accept_token_s=1e-4)
    burst = Requests(np.zeros(8), np.full(8, 100), np.full(8, 4))
    record, rows, _ = serve_all(burst, engine, limits(), linear)
    started = sorted(record.started)
    assert started[0] == pytest.approx(8 * (0.01 + 100e-4))
    assert rows[0].rows[4][:2].tolist() == [100, 700]  # prompt tokens of the first two iterations
    alone, _, _ = serve_all(
        Requests(np.zeros(1), np.full(1, 100), np.full(1, 4)), engine, limits(), linear
    )
    assert alone.started[0] == pytest.approx(0.02)


def test_requests_far_apart_do_not_hold_each_other_up() -> None:
    engine = replace(bare(), accept_s=0.01)
    apart = Requests(np.arange(6.0), np.full(6, 50), np.full(6, 3))
    record, _, _ = serve_all(apart, engine, limits(), linear)
    assert np.asarray(record.started) == pytest.approx(np.arange(6.0) + 0.01)
