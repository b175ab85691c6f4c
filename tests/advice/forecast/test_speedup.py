"""The interval of a speedup, by hand and on real steps."""

from __future__ import annotations

from math import exp, hypot, log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_changes import build

import gpuscope as gs
from gpuscope.advice.forecast import speedup as gain
from gpuscope.advice.forecast.speedup import Costs, _Share, costs_of, speedup_interval
from gpuscope.cost import kind_spread
from gpuscope.cost.engine import SYSTEMATIC_SPREAD
from gpuscope.cost.kind_spread import kind_spreads
from gpuscope.hardware import calibration_for


@pytest.fixture(autouse=True)
def no_kind_of_its_own(monkeypatch):
    """What programs showed of kinds is set aside: errors here are by hand."""
    monkeypatch.setattr(kind_spread, "kind_spreads", dict)


def _costs(step_s, kernels, *, follows=1.0, spread=0.0, common=0.0, host=(1.0, 1.0)):
    """Kernels: name -> (share, error)."""
    shares = {(n,): _Share(s, e, e, ("matmul", n[:2])) for n, (s, e) in kernels.items()}
    return Costs(
        step_s,
        step_s * host[0],
        step_s * host[1],
        {"device": follows},
        {"device": shares},
        spread,
        common,
    )


@pytest.fixture(autouse=True, scope="module")
def _the_prediction_alone():
    """By hand without what two measurements differ by, which has a test of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gain, "REPEAT", 0.0)
        yield


def test_two_measurements_of_the_same_step_differ(monkeypatch):
    step = _costs(1.0, {"a": (1.0, 0.5)})
    other = _costs(0.5, {"b": (1.0, 0.03)})
    monkeypatch.setattr(gain, "REPEAT", 0.04)
    assert speedup_interval(step, step) == pytest.approx((1.0, exp(-0.04), exp(0.04)))
    point, low, high = speedup_interval(_costs(1.0, {"a": (1.0, 0.0)}), other)
    assert log(high / point) == pytest.approx(0.05)  # 3, 4 and 5
    assert log(point / low) == pytest.approx(0.05)


def test_the_same_step_gains_exactly_nothing():
    step = _costs(1.0, {"a": (0.3, 0.5), "b": (0.7, 0.2)}, spread=0.2, common=0.3, host=(0.5, 2))
    assert speedup_interval(step, step) == (1.0, 1.0, 1.0)


def test_kernels_of_one_step_carry_their_whole_error():
    before, after = _costs(2.0, {"a": (1.0, 0.1)}), _costs(1.0, {"b": (1.0, 0.2)})
    point, low, high = speedup_interval(before, after)
    assert point == pytest.approx(2.0)
    assert log(high / point) == pytest.approx(hypot(0.1, 0.2))
    assert log(point / low) == pytest.approx(hypot(0.1, 0.2))


def test_a_kernel_in_both_counts_by_how_much_its_share_differs():
    # 3 of 4 s and 3 of 3 s: shares 0.75 and 1; the other kernel is gone.
    before = _costs(4.0, {"a": (0.75, 0.2), "b": (0.25, 0.0)})
    after = _costs(3.0, {"a": (1.0, 0.2)})
    point, _, high = speedup_interval(before, after)
    assert log(high / point) == pytest.approx(0.25 * 0.2)


def test_what_kernels_of_a_kind_share_cancels_where_both_have_as_much():
    before = _costs(2.0, {"xx1": (1.0, 0.0)}, spread=0.3, common=0.2)
    same = _costs(1.0, {"xx2": (1.0, 0.0)}, spread=0.3, common=0.2)
    other = _costs(1.0, {"yy1": (1.0, 0.0)}, spread=0.3, common=0.2)
    assert speedup_interval(before, same) == pytest.approx((2.0, 2.0, 2.0))
    point, _, high = speedup_interval(before, other)
    assert log(high / point) == pytest.approx(hypot(0.3, 0.3))


def _of_calls(step_s, calls, spread, kind="matmul"):
    """Kernels: (operator, phase) -> share; without errors of their own."""
    shares = {c: _Share(s, 0.0, 0.0, (kind, "bfloat16"), c) for c, s in calls.items()}
    return Costs(step_s, step_s, step_s, {"device": 1.0}, {"device": shares}, spread)


def test_what_a_kind_shares_does_not_cancel_between_forward_and_backward():
    """Recomputing turns a third forward into half: 0.17 more of one, 0.17 less of the other."""
    forward, backward = ("addmm", "forward"), ("mm", "backward")
    before = _of_calls(3.0, {forward: 1 / 3, backward: 2 / 3}, 0.1)
    after = _of_calls(4.0, {forward: 1 / 2, backward: 1 / 2}, 0.1)
    point, low, high = speedup_interval(before, after)
    assert log(high / point) == pytest.approx(0.1 * hypot(1 / 6, 1 / 6))
    assert log(point / low) == pytest.approx(log(high / point))


def test_what_one_operator_shares_still_cancels():
    call = ("mm", "backward")
    before, after = _of_calls(2.0, {call: 1.0}, 0.3), _of_calls(1.0, {call: 1.0}, 0.3)
    assert speedup_interval(before, after) == pytest.approx((2.0, 2.0, 2.0))


def test_what_a_kind_shares_is_never_less_than_its_whole_share_says():
    """Where all of a kind goes, as of another dtype, its operators err together."""
    calls = {("addmm", "forward"): 0.3, ("mm", "backward"): 0.7}
    none = _of_calls(1.0, {("x", "forward"): 1.0}, 0.1, kind="")
    point, _, high = speedup_interval(_of_calls(2.0, calls, 0.1), none)
    assert log(high / point) == pytest.approx(hypot(0.1, 0.1))


def test_kinds_that_recorded_steps_show_to_err_more_are_less_sure(monkeypatch):
    monkeypatch.setattr(kind_spread, "kind_spreads", kind_spreads)
    none = _of_calls(1.0, {("x", "forward"): 1.0}, 0.0, kind="")
    for kind, spread in kind_spreads().items():
        before = _of_calls(2.0, {("y", "forward"): 1.0}, SYSTEMATIC_SPREAD, kind=kind)
        point, low, high = speedup_interval(before, none)
        # Slower kernels before the change make its gain larger; the other way round after it.
        above, below = (max(s, SYSTEMATIC_SPREAD) for s in (spread.above, spread.below))
        assert log(high / point) == pytest.approx(hypot(above, SYSTEMATIC_SPREAD))
        assert log(point / low) == pytest.approx(hypot(below, SYSTEMATIC_SPREAD))


def test_the_host_is_the_same_in_both():
    paced, free = _costs(2.0, {"a": (1.0, 0.0)}, host=(0.8, 1.5)), _costs(1.0, {"a": (1.0, 0.0)})
    assert speedup_interval(paced, paced)[1:] == (1.0, 1.0)
    assert speedup_interval(paced, free) == pytest.approx((2.0, 1.6, 3.0))


def test_work_counts():
    before, after = _costs(1.0, {"a": (1.0, 0.0)}), _costs(2.0, {"a": (1.0, 0.0)})
    assert speedup_interval(before, after, 2.0)[0] == pytest.approx(1.0)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 0.5), st.floats(0, 0.3))
def test_the_point_is_inside_and_more_error_is_never_narrower(one, other, error, more):
    def interval(e):
        before = _costs(3.0, {"a": (one, e), "b": (1 - one, 0.1)})
        after = _costs(2.0, {"a": (other, e), "c": (1 - other, 0.1)})
        return speedup_interval(before, after)

    narrow, wide = interval(error), interval(error + more)
    assert narrow[1] <= narrow[0] <= narrow[2]
    assert wide[1] <= narrow[1] * exp(1e-12)
    assert wide[2] >= narrow[2] * exp(-1e-12)


def test_a_real_step_is_walked_as_predict_does():
    program = gs.capture(build)
    cluster = gs.parse_target("h200")
    costs = costs_of(program, cluster, calibration_for(cluster.device))
    run = gs.predict(program, "h200")
    assert costs.step_s == pytest.approx(run.step_time_s, rel=1e-6)
    assert costs.follows["device"] > 0.95
    assert sum(s.share for s in costs.shares["device"].values()) == pytest.approx(1.0)
    assert sum(s.share for s in costs.shares["host"].values()) == pytest.approx(1.0)
