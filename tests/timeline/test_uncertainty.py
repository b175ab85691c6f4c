from dataclasses import replace
from math import hypot, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_programs import GAP_S, US, call, costed, kernel, ranked, talk

from gpuscope.cost import kind_spread
from gpuscope.program.types import ProcessGroup
from gpuscope.timeline import simulate, step_time_interval
from gpuscope.timeline.rank_walk import build_job
from gpuscope.timeline.simulate_ranks import simulate_ranks
from gpuscope.timeline.uncertainty import device_error
from gpuscope.timeline.uncertainty_ranks import job_time_interval


@pytest.fixture(autouse=True)
def no_kind_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What recorded programs showed of kinds is set aside: errors here are by hand."""
    monkeypatch.setattr(kind_spread, "kind_spreads", dict)


def test_what_programs_showed_of_a_kind_widens_its_time_alone(monkeypatch: pytest.MonkeyPatch):
    first = kernel(100)
    shown = {first.kind: kind_spread.Spread(below=0.05, above=0.3)}
    monkeypatch.setattr(kind_spread, "kind_spreads", lambda: shown)
    both = costed([call(first), call(replace(kernel(100), kind="other"))], device_spread=0.1)
    assert device_error(both, lambda _: 0.0) == pytest.approx(hypot(0.3, 0.1) / 2)
    # Never less than what the device's kernels of any kind share.
    assert device_error(both, lambda _: 0.0, upwards=False) == pytest.approx(hypot(0.1, 0.1) / 2)


def test_when_the_host_sets_the_pace_the_interval_is_the_hosts():
    step = costed([call(kernel(1))] * 50, host_spread=0.4, device_spread=0.1)
    low, high = step_time_interval(step)
    assert low == pytest.approx(300 * US * 0.6)
    assert high == pytest.approx(300 * US * 1.4)


def test_when_the_device_sets_the_pace_the_interval_is_the_devices():
    step = costed([call(kernel(100))] * 50, host_spread=0.4, device_spread=0.1)
    low, high = step_time_interval(step)
    assert low == pytest.approx(50 * (90 * US + GAP_S))
    assert high == pytest.approx(50 * (110 * US + GAP_S))


def test_errors_of_different_kernels_average_out_and_of_equal_ones_do_not():
    one = costed([call(kernel(100, low_us=80, high_us=120))], device_spread=0.0)
    many = costed(
        [call(replace(kernel(100, low_us=80, high_us=120), grid=n)) for n in range(1, 101)],
        device_spread=0.0,
    )
    equal = costed(
        [call(kernel(100, low_us=80, high_us=120)) for _ in range(100)], device_spread=0.0
    )
    folded = costed([call(kernel(100, low_us=80, high_us=120), repeat=100)], device_spread=0.0)

    def high(program):
        return device_error(program, lambda k: k.high_s - k.duration_s)

    assert high(one) == pytest.approx(0.2)
    assert high(many) == pytest.approx(0.2 / 10)
    assert high(equal) == pytest.approx(0.2)
    assert high(folded) == pytest.approx(0.2)


def test_kinds_err_independently():
    kinds = ["matmul", "pointwise", "reduction", "gather"]
    step = costed([call(kernel(100, kind=kind)) for kind in kinds], device_spread=0.1)
    assert device_error(step, lambda k: 0.0) == pytest.approx(0.1 / sqrt(4))


def test_what_all_kernels_share_does_not_average_out():
    kinds = ("matmul", "pointwise", "reduction", "gather")
    calls = [call(kernel(100, kind=kind)) for kind in kinds]
    apart = device_error(costed(calls, device_spread=0.1), lambda k: 0.0)
    shared = device_error(costed(calls, device_spread=0.1, common_spread=0.3), lambda k: 0.0)
    assert apart == pytest.approx(0.05)
    assert shared == pytest.approx(hypot(0.05, 0.3))


def test_a_slow_host_can_take_the_lead():
    """Device a little slower than the host: a slower host shows above, a faster one not below."""
    step = costed([call(kernel(6))] * 100, host_spread=0.5, device_spread=0.0)
    low, high = step_time_interval(step)
    point = simulate(step).step_time_s
    assert low == pytest.approx(point)
    assert high == pytest.approx(900 * US)


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20), st.booleans()), min_size=1),
    st.floats(0, 0.9),
    st.floats(0, 0.9),
    st.floats(0, 0.5),
)
@settings(max_examples=40, deadline=None)
def test_contains_the_point_and_grows_with_the_spreads(rows, host, more, device):
    ops = [
        call(kernel(us, low_us=us * 0.9, high_us=us * 1.2), before_us=b, sync="item" if s else "")
        for us, b, s in rows
    ]
    point = simulate(costed(ops)).step_time_s
    low, high = step_time_interval(costed(ops, host_spread=host, device_spread=device))
    assert 0 < low <= point <= high
    for fields in (
        {"host_spread": host + more, "device_spread": device},
        {"host_spread": host, "device_spread": device + more},
    ):
        wider_low, wider_high = step_time_interval(costed(ops, **fields))
        assert wider_low <= low * (1 + 1e-9)
        assert wider_high >= high * (1 - 1e-9)


GROUPS = (ProcessGroup("0", "dp", (0, 1)),)


def test_links_err_for_themselves():
    # 1,000 us of products and 1,000 us of communication after them, each 10 % uncertain.
    step = ranked(
        [call(kernel(1000)), talk(1000, waits=(0,)), call(kernel(1), waits=(1,))],
        0,
        GROUPS,
        2,
        host_spread=0.0,
        device_spread=0.1,
    )
    point = simulate(step).step_time_s
    low, high = step_time_interval(step)
    # Together they would give 200 us; two that err independently give sqrt(2) times 100 us.
    assert high - point == pytest.approx(hypot(100, 100) * US, rel=0.01)
    assert point - low == pytest.approx(hypot(100, 100) * US, rel=0.01)


def test_hidden_communication_does_not_widen_the_interval():
    def width(link_spread: float) -> float:
        slow = talk(100, stream=1)
        link = replace(slow.kernels[0], low_s=50 * US, high_s=(1 + link_spread) * 100 * US)
        hidden = [replace(slow, kernels=(link,)), call(kernel(1000))]
        low, high = step_time_interval(ranked(hidden, 0, GROUPS, 2, device_spread=0.1))
        return high - low

    assert width(0.2) == pytest.approx(width(2.0))


def test_the_interval_of_a_job_contains_its_period_and_takes_skew():
    programs = [
        ranked(
            [call(kernel(us)), talk(50), call(kernel(5), waits=(1,))],
            rank,
            GROUPS,
            2,
            host_spread=0.2,
            device_spread=0.1,
        )
        for rank, us in enumerate((300, 500))
    ]
    job = build_job(programs, [(0,), (1,)])
    point = simulate_ranks(programs, [(0,), (1,)]).step_time_s
    low, high = job_time_interval(job)
    assert low < point < high
    late_low, late_high = job_time_interval(job, skew_s=(0.0, 1e-3))
    assert late_low == low
    assert late_high == pytest.approx(point + hypot(high - point, 1e-3))


def test_the_interval_of_equal_ranks_is_that_of_one():
    step = ranked([call(kernel(300)), talk(50, waits=(0,))], 0, GROUPS, 2, device_spread=0.1)
    assert job_time_interval(build_job([step], [(0, 1)])) == pytest.approx(
        step_time_interval(step), rel=1e-12
    )


def test_a_host_may_be_more_slower_than_faster() -> None:
    """A step of the host alone: 20 % faster or 120 % slower."""
    step = costed([call(kernel(1))] * 50, host_spread=1.2, host_faster=0.2, device_spread=0.0)
    low, high = step_time_interval(step)
    assert low == pytest.approx(300 * US * 0.8)
    assert high == pytest.approx(300 * US * 2.2)
