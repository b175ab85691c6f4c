"""The last minutes, in bounded memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watch_samples import device, idle, samples, training

from gpuscope.watch.history import History
from gpuscope.watch.verdict import judge
from gpuscope.watch.window import busy_of


def filled(taken, kept_s: float = 600.0) -> History:
    history = History(kept_s)
    for sample in taken:
        history.add((sample,))
    return history


def test_old_samples_are_let_go() -> None:
    history = filled(samples(training, 100), kept_s=20)
    assert len(history.recent("node1", 1e9)) == 21
    assert history.latest("node1").unix_s % 100 == 99


def test_recent_is_oldest_first() -> None:
    times = [s.unix_s for s in filled(samples(training, 30)).recent("node1", 5)]
    assert times == sorted(times)
    assert len(times) == 6


def test_verdicts_are_those_of_the_rules() -> None:
    taken = samples(lambda n: [training(n, 0), idle(n, 1)], 15)
    history = filled(taken)
    assert history.verdicts("node1") == (judge(taken, 0), judge(taken, 1))


def test_a_clock_that_goes_back_starts_anew() -> None:
    taken = samples(training, 10)
    history = filled([*taken, replace(taken[0], unix_s=taken[0].unix_s - 100)])
    assert len(history.recent("node1", 1e9)) == 1


def test_a_sample_that_comes_twice_counts_once() -> None:
    taken = samples(training, 3)
    assert len(filled([taken[0], taken[1], taken[1], taken[2]]).recent("node1", 1e9)) == 3


def test_a_host_that_stays_away_is_silent() -> None:
    history = History()
    a, b = samples(training, 2, host="a"), samples(idle, 2, host="b")
    history.add((a[0], b[0]))
    assert history.silent == ()
    history.add((a[1],))
    assert (history.hosts, history.silent) == (("a", "b"), ("b",))
    history.add(())
    assert history.silent == ("a", "b")
    history.add((a[1], b[1]))
    assert history.silent == ()


def test_a_curve_by_hand() -> None:
    taken = samples(lambda n: device(utilisation=n / 10), 10)
    history = filled(taken)
    curve = history.curve("node1", 0, busy_of, 5, 10.0)
    assert curve == pytest.approx([0.05, 0.25, 0.45, 0.65, 0.85])


def test_what_was_not_read_leaves_a_gap() -> None:
    history = filled(samples(lambda n: device(utilisation=0.5), 3))
    assert history.curve("node1", 0, busy_of, 4, 40.0)[:3] == [None, None, None]
    assert history.curve("node1", 9, busy_of, 4, 40.0) == [None] * 4
    assert history.curve("node1", 0, busy_of, 0, 40.0) == []
    assert filled(samples(idle, 2, host_cpu=None)).host_curve("node1", 2, 10.0) == [None, None]


@settings(deadline=None)
@given(st.integers(1, 80), st.integers(1, 200), st.floats(1, 600))
def test_a_curve_has_as_many_columns_as_asked(n: int, columns: int, seconds: float) -> None:
    history = filled(samples(lambda i: device(utilisation=0.3), n))
    curve = history.curve("node1", 0, busy_of, columns, seconds)
    assert len(curve) == columns
    assert all(v is None or abs(v - 0.3) < 1e-9 for v in curve)
    assert curve[-1] is not None


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(1, 20))
def test_a_curve_that_follows_is_the_one_drawn_at_once(busy: list[float], columns: int) -> None:
    taken = samples(lambda n: device(utilisation=busy[n]), len(busy))
    following = History()
    for sample in taken:
        following.add((sample,))
        drawn = following.curve("node1", 0, busy_of, columns, 30.0)
    assert drawn == pytest.approx(filled(taken).curve("node1", 0, busy_of, columns, 30.0))
