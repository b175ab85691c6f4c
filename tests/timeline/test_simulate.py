import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_programs import GAP_S, LATENCY_S, US, call, costed, kernel

from gpuscope.errors import InvalidValueError
from gpuscope.timeline import Timeline, simulate
from gpuscope.timeline.intervals import overlap_length, union_length
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS


def device(timeline: Timeline):
    """Device events as (name, lane name, start_ns, end_ns)."""
    e = timeline.events
    rows = np.flatnonzero(e.kind < DEVICE_KINDS)
    return [
        (timeline.names[e.name[i]], timeline.lanes[e.lane[i]].name, e.start_ns[i], e.end_ns[i])
        for i in rows.tolist()
    ]


def of_kind(timeline: Timeline, kind: str):
    return np.flatnonzero(timeline.events.kind == EVENT_KINDS.index(kind))


def test_when_the_host_is_slow_its_time_is_the_period():
    s = simulate(costed([call(kernel(2.5))] * 100))
    assert s.step_time_s == pytest.approx(100 * 6 * US, rel=1e-9)
    assert s.host_busy_s == pytest.approx(100 * 6 * US, rel=1e-9)
    assert s.host_wait_s == pytest.approx(0, abs=1e-12)
    assert s.device_busy_s == pytest.approx(100 * 2.5 * US, rel=1e-9)


def test_when_the_device_is_slow_kernels_and_gaps_are_the_period():
    s = simulate(costed([call(kernel(50))] * 100))
    assert s.step_time_s == pytest.approx(100 * (50 * US + GAP_S), rel=1e-9)
    assert s.host_wait_s == pytest.approx(s.step_time_s - 600 * US, rel=1e-9)


def test_first_kernel_starts_after_launch_call_and_latency():
    s = simulate(costed([call(kernel(10), sync="item")]), steps=1)
    launch = of_kind(s.timeline, "launch")[0]
    _, lane, start, end = device(s.timeline)[0]
    assert lane == "stream 0"
    assert start == s.timeline.events.end_ns[launch] + 4000
    assert end - start == 10_000
    assert s.first_step_s == pytest.approx(2 * US + 3 * US + LATENCY_S + 10 * US + LATENCY_S + US)


def test_a_wait_in_each_step_adds_host_and_device_tail():
    ops = [call(kernel(50))] * 10 + [call(kernel(2), sync="item")]
    s = simulate(costed(ops))
    # The host runs through 10 calls while the first kernel is still running; after the wait it
    # starts from nothing, so a step is: first launch, latency, all kernels, return, after_s.
    period = (2 + 3) * US + LATENCY_S + 10 * (50 * US + GAP_S) + 2 * US + LATENCY_S + 1 * US
    assert s.step_time_s == pytest.approx(period, rel=1e-9)
    waits = of_kind(s.timeline, "sync")
    assert len(waits) == 1
    assert s.timeline.names[s.timeline.events.name[waits[0]]] == "item"
    assert s.timeline.events.duration_ns[waits[0]] * 1e-9 == pytest.approx(s.host_wait_s, abs=2e-9)


def test_a_wait_for_a_finished_device_costs_nothing():
    idle = call(before_us=500)
    s = simulate(costed([call(kernel(5)), idle, call(sync="synchronize", before_us=0)]))
    assert s.step_time_s == pytest.approx((6 + 501 + 1) * US)


def test_copy_on_its_own_stream_overlaps_compute_and_on_the_same_does_not():
    def step(stream: int):
        copy = call(kernel(200, lane="copy_h2d", stream=stream, kind="transfer"), stream=stream)
        return simulate(costed([copy, *[call(kernel(50))] * 4]))

    apart, together = step(1), step(0)
    assert {lane for _, lane, _, _ in device(apart.timeline)} == {"copy H2D", "stream 0"}
    assert together.step_time_s == pytest.approx(200 * US + 4 * 50 * US + 5 * GAP_S)
    assert apart.step_time_s == pytest.approx(4 * (50 * US + GAP_S))
    assert together.device_busy_s == pytest.approx(400 * US)


def test_one_copy_engine_serves_one_copy_at_a_time():
    ops = [
        call(kernel(100, lane="copy_h2d", stream=s, kind="transfer"), stream=s) for s in (1, 2, 3)
    ]
    s = simulate(costed(ops))
    spans = device(s.timeline)
    for (_, _, _, end), (_, _, start, _) in pairwise(spans):
        assert start >= end
    assert s.step_time_s >= 300 * US - 1e-12


def test_reader_on_another_stream_waits_for_the_writer():
    ops = [
        call(kernel(300, stream=1, name="writer"), stream=1, writes=[7]),
        call(kernel(10, name="independent"), reads=[1], writes=[2]),
        call(kernel(10, name="reader"), reads=[7], writes=[3]),
    ]
    spans = {name: (start, end) for name, _, start, end in device(simulate(costed(ops)).timeline)}
    assert spans["independent"][1] < spans["writer"][1] <= spans["reader"][0]


def test_collective_follows_its_stream_and_wait_tensor_holds_the_next_kernel():
    ops = [
        call(kernel(40, name="grad"), writes=[1]),
        call(kernel(90, name="reduce", lane="link", kind="collective"), reads=[1], writes=[1]),
        call(kernel(30, name="hidden")),
        call(name="_c10d_functional::wait_tensor", reads=[1]),
        call(kernel(20, name="use")),
    ]
    s = simulate(costed(ops), steps=1)
    at = {name: (start, end) for name, _, start, end in device(s.timeline)}
    assert at["reduce"][0] >= at["grad"][1]
    assert at["hidden"][0] < at["reduce"][1]
    assert at["use"][0] >= at["reduce"][1]
    link = [lane.kind for lane in s.timeline.lanes]
    assert link == ["host", "stream", "link"]
    assert len(of_kind(s.timeline, "communication")) == 1


def test_kernels_of_one_operator_wait_for_those_it_names_on_other_streams():
    first, side, last = kernel(10), kernel(20), kernel(5)
    kernels = (
        first,
        replace(side, stream=1000, after=(0,)),
        replace(last, after=(1,), gap_s=2 * US),
    )
    s = simulate(costed([call(*kernels)]), steps=1)
    (_, lane, _, a), (_, beside, b, c), (_, _, e, _) = device(s.timeline)
    assert (lane, beside) == ("stream 0", "stream 1000")
    assert b == a
    assert e == c  # the longer gap after `first` is over by then
    alone = simulate(costed([call(first, replace(last, gap_s=2 * US))]), steps=1)
    (_, _, _, a), (_, _, b, _) = device(alone.timeline)
    assert b - a == pytest.approx((GAP_S + 2 * US) * 1e9, abs=1)


def test_memory_read_before_it_is_written_comes_from_the_step_before():
    ops = [
        call(kernel(10, name="use"), reads=[5]),
        call(kernel(400, stream=1, name="fill"), stream=1, writes=[5]),
    ]
    s = simulate(costed(ops))
    # use(k) waits for fill(k-1), fill(k) only for its own stream, which sets the pace.
    assert s.step_time_s == pytest.approx(400 * US + GAP_S, rel=1e-6)


def test_full_launch_queue_holds_the_host_back():
    many = 3000
    s = simulate(costed([call(kernel(20), before_us=0, launch_us=3, after_us=0)] * many))
    launches = of_kind(s.timeline, "launch")
    kernels = of_kind(s.timeline, "kernel")
    e = s.timeline.events
    launch_end = np.sort(e.end_ns[launches])
    start = np.sort(e.start_ns[kernels])
    assert (launch_end[1024:] >= start[:-1024]).all()
    assert s.step_time_s == pytest.approx(many * (20 * US + GAP_S))
    assert e.duration_ns[launches].max() > 20_000


def test_graph_is_one_launch_with_kernels_close_together():
    ops = [call(kernel(5))] * 200
    eager, graph = simulate(costed(ops)), simulate(costed(ops, graph=True))
    assert eager.step_time_s == pytest.approx(200 * 6 * US)
    assert graph.step_time_s == pytest.approx(200 * 5 * US)
    assert len(of_kind(graph.timeline, "launch")) == 1
    assert len(of_kind(graph.timeline, "kernel")) == 200
    assert graph.host_busy_s < 5 * US
    wider = simulate(costed(ops, graph=True, kernel_gap_s=1.5 * US))
    assert wider.step_time_s == pytest.approx(200 * 5.5 * US)


def test_graph_leaves_input_copies_and_waits_outside():
    copy = kernel(8, lane="copy_h2d", kind="transfer")
    ops = [call(copy, phase="input"), *[call(kernel(5))] * 50, call(kernel(2), sync="item")]
    s = simulate(costed(ops, graph=True))
    e = s.timeline.events
    assert [s.timeline.names[e.name[i]] for i in of_kind(s.timeline, "launch")] == [
        "launch",
        "graph launch",
        "launch",
    ]
    assert len(of_kind(s.timeline, "sync")) == 1


def test_repeat_stands_for_equal_calls():
    folded = simulate(costed([call(kernel(30), kernel(7), repeat=5), call(kernel(9))]))
    plain = simulate(costed([*[call(kernel(30), kernel(7))] * 5, call(kernel(9))]))
    assert folded.step_time_s == pytest.approx(plain.step_time_s, rel=1e-12)
    assert len(of_kind(folded.timeline, "kernel")) == 11
    assert len(folded.timeline.kernels) == 3


def test_backward_is_drawn_on_the_autograd_thread():
    ops = [call(kernel(5)), call(kernel(5), phase="backward"), call(kernel(5), phase="optimizer")]
    t = simulate(costed(ops)).timeline
    lanes = [t.lanes[t.events.lane[i]].name for i in of_kind(t, "operator")]
    assert lanes == ["host main", "host autograd", "host main"]


def test_events_tie_launches_to_their_kernels():
    t = simulate(costed([call(kernel(5), kernel(6)), call(), call(kernel(7))])).timeline
    e = t.events
    for i in of_kind(t, "kernel").tolist():
        launch = [j for j in of_kind(t, "launch").tolist() if e.correlation[j] == e.correlation[i]]
        assert len(launch) == 1
        assert e.op[launch[0]] == e.op[i]
        assert e.start_ns[i] >= e.end_ns[launch[0]]
        assert t.kernels[e.kernel[i]].duration_s * 1e9 == pytest.approx(e.duration_ns[i], abs=1)


def test_host_events_nest():
    t = simulate(
        costed([call(kernel(5), kernel(6), sync="item"), call(), call(kernel(7))])
    ).timeline
    e = t.events
    open_ends: list[int] = []
    for i in np.flatnonzero(e.lane == 0).tolist():
        while open_ends and open_ends[-1] <= e.start_ns[i]:
            open_ends.pop()
        assert not open_ends or e.end_ns[i] <= open_ends[-1]
        open_ends.append(int(e.end_ns[i]))


def test_a_step_without_device_work_takes_the_hosts_time():
    s = simulate(costed([call(view=True, before_us=3, after_us=0)] * 4))
    assert s.step_time_s == pytest.approx(12 * US)
    assert s.device_busy_s == 0
    assert simulate(costed([])).step_time_s == 0


def test_refuses_no_steps():
    with pytest.raises(InvalidValueError, match="0 steps"):
        simulate(costed([call(kernel(5))]), steps=0)


step_ops = st.lists(
    st.builds(
        lambda us, host, sync, stream, reads, writes, lane: call(
            kernel(us, stream=stream, lane=lane),
            before_us=host,
            sync=sync,
            stream=stream,
            reads=reads,
            writes=writes,
        ),
        st.integers(1, 80),
        st.integers(0, 60),
        st.sampled_from(["", "", "", "item", "synchronize"]),
        st.integers(0, 2),
        st.lists(st.integers(0, 3), max_size=2),
        st.lists(st.integers(0, 3), max_size=1),
        st.sampled_from(["compute", "compute", "copy_h2d", "link"]),
    ),
    min_size=1,
    max_size=12,
)


@given(step_ops)
@settings(max_examples=60, deadline=None)
def test_work_is_conserved_and_lanes_never_overlap(ops):
    t = simulate(costed(ops)).timeline
    e = t.events
    for number, lane in enumerate(t.lanes):
        if lane.kind == "host":
            continue
        on = e.lane == number
        if lane.kind != "stream":
            assert e.duration_ns[on].sum() == union_length(e.start_ns[on], e.end_ns[on])
        total_s = sum(t.kernels[k].duration_s for k in e.kernel[on].tolist())
        assert e.duration_ns[on].sum() * 1e-9 == pytest.approx(total_s, abs=on.sum() * 1e-9)


@given(step_ops, st.integers(0, 11), st.integers(1, 100))
@settings(max_examples=60, deadline=None)
def test_longer_kernel_or_slower_host_never_finishes_earlier(ops, at, more):
    """Completion after several steps is monotone (the period of one step need not be)."""
    at %= len(ops)
    base = simulate(costed(ops), steps=1).first_step_s
    us = ops[at].kernels[0].duration_s / US
    old = ops[at]
    longer = kernel(us + more, stream=old.op.stream, lane=old.kernels[0].lane)
    slow_device = [*ops]
    slow_device[at] = type(old)(old.op, (longer,), old.host)
    assert simulate(costed(slow_device), steps=1).first_step_s >= base - 1e-12
    slower = type(old.host)(old.host.before_s + more * US, 3 * US, 1 * US, old.host.sync)
    slow_host = [*ops]
    slow_host[at] = type(old)(old.op, old.kernels, slower)
    assert simulate(costed(slow_host), steps=1).first_step_s >= base - 1e-12


@given(step_ops)
@settings(max_examples=40, deadline=None)
def test_steady_period_is_bounded_by_its_parts(ops):
    s = simulate(costed(ops))
    host = sum(o.host.before_s + o.host.per_launch_s + o.host.after_s for o in ops)
    device_s = sum(o.kernels[0].duration_s for o in ops)
    slack = len(ops) * (2 * LATENCY_S + GAP_S)
    assert s.step_time_s >= host - 1e-12
    assert s.step_time_s <= host + device_s + slack + 1e-12


def test_equal_input_gives_equal_output():
    ops = [call(kernel(5), kernel(40), sync="item" if i % 7 == 0 else "") for i in range(50)]
    first, second = simulate(costed(ops)), simulate(costed(ops))
    assert first.step_time_s == second.step_time_s
    assert (first.timeline.events.start_ns == second.timeline.events.start_ns).all()


def test_compute_and_communication_overlap_is_visible():
    ops = [call(kernel(100, lane="link", kind="collective"), writes=[1]), call(kernel(80))]
    t = simulate(costed(ops), steps=1).timeline
    e = t.events
    comm, comp = of_kind(t, "communication"), of_kind(t, "kernel")
    both = overlap_length((e.start_ns[comm], e.end_ns[comm]), (e.start_ns[comp], e.end_ns[comp]))
    assert both == 80_000


def test_ten_thousand_kernels_are_quick():
    step = costed([call(kernel(5 + i % 50)) for i in range(10_000)])
    began = time.process_time()
    s = simulate(step)
    assert len(of_kind(s.timeline, "kernel")) == 10_000
    assert time.process_time() - began < 1.5
