from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_programs import US, call, costed, kernel

from gpuscope.errors import InvalidValueError
from gpuscope.program.types import Op, Program, Storage
from gpuscope.timeline import attach_memory, simulate, simulate_memory

MIB = 1 << 20


def program(storages, ops=4):
    return Program(
        "test",
        tuple(Op(index=i, name="aten::add") for i in range(ops)),
        storages=tuple(
            Storage(i, nbytes, category, born, died, module=module, label=label)
            for i, (nbytes, category, born, died, module, label) in enumerate(storages)
        ),
    )


STEP = [
    (20 * MIB, "parameter", -1, None, "fc", "weight"),
    (20 * MIB, "gradient", -1, 0, "fc", "weight.grad"),
    (30 * MIB, "activation", 0, 3, "fc", "output"),
    (20 * MIB, "gradient", 2, None, "fc", "weight.grad"),
    (40 * MIB, "temporary", 1, 2, "", "scratch"),
    (100, "activation", 2, None, "", "loss"),
]


def test_known_answer_over_one_step():
    trace = simulate_memory(program(STEP), steps=1)
    assert trace.op.tolist() == [-1, 0, 1, 2, 3]
    assert (trace.allocated_bytes // MIB).tolist() == [40, 50, 90, 70, 40]
    assert trace.peak_allocated_bytes == 90 * MIB
    assert trace.peak_op == 1
    # The old gradient's 20 MiB segment is free at op 1 but too small for 40, and serves op 2.
    assert trace.reserved_bytes.tolist()[:3] == [40 * MIB, 70 * MIB, 110 * MIB]
    assert trace.peak_reserved_bytes == 112 * MIB
    assert dict(trace.at_peak) == {
        "temporary": 40 * MIB,
        "activation": 30 * MIB,
        "parameter": 20 * MIB,
    }
    assert [h.label for h in trace.holders] == ["scratch", "output", "weight"]
    assert sum(size for _, size in trace.by_module) == trace.peak_allocated_bytes


def test_next_step_frees_what_the_last_left_behind():
    one, many = simulate_memory(program(STEP), steps=1), simulate_memory(program(STEP), steps=5)
    # The loss of the step before is still held (its caller drops it afterwards); nothing else.
    assert many.peak_allocated_bytes == one.peak_allocated_bytes + 512
    assert many.allocated_bytes[-1] == one.allocated_bytes[-1] + 512
    # One step alone has the old gradient's segment besides (20 + 20 + 30 + 40 + 2 MiB); in a run
    # the first gradient is made in the scratch's 40 MiB, so that 20 + 30 + 40 + 2 MiB suffice.
    assert one.peak_reserved_bytes == 112 * MIB
    assert many.peak_reserved_bytes == 92 * MIB


def test_optimizer_states_made_in_the_first_step_break_up_what_activations_left():
    ops = (Op(0, "aten::mm"), Op(1, "aten::_fused_adamw_", phase="optimizer"))
    storages = (
        Storage(0, 20 * MIB, "parameter", -1, None),
        Storage(1, 40 * MIB, "optimizer_state", -1, None),
        Storage(2, 60 * MIB, "activation", 0, 1),
    )
    step = Program("test", ops, storages)
    # Alone: 20 + 40 + 60. In a run the states split the 60 MiB that the activation left.
    assert simulate_memory(step, steps=1).peak_reserved_bytes == 120 * MIB
    cold = simulate_memory(step, steps=3)
    assert cold.peak_reserved_bytes == (20 + 60 + 60) * MIB
    assert cold.peak_allocated_bytes == 120 * MIB


def test_state_without_successor_is_made_once():
    rows = [(8 * MIB, "optimizer_state", 1, None, "fc", "exp_avg")]
    assert simulate_memory(program(rows), steps=4).peak_allocated_bytes == 8 * MIB


def test_a_growing_cache_replaces_the_old_one():
    rows = [
        (16 * MIB, "cache", -1, 2, "layer", "keys"),
        (17 * MIB, "cache", 1, None, "layer", "keys"),
    ]
    for steps in (1, 2, 4):
        trace = simulate_memory(program(rows), steps=steps)
        assert trace.allocated_bytes[-1] <= 18 * MIB
        # 17 MiB takes a segment of 18, whose rest of 1 MiB is not split off.
        assert trace.peak_allocated_bytes == (34 if steps == 1 else 36) * MIB


def test_outputs_kept_until_the_next_step_are_freed_where_that_begins():
    kept = [(16 * MIB, "input", -1, 0, "output", "aten::mm") for _ in range(3)]
    made = [(16 * MIB, "temporary", at, None, "output", "aten::mm") for at in range(3)]
    trace = simulate_memory(program([*kept, *made]), steps=3)
    assert trace.peak_allocated_bytes == 3 * 16 * MIB


def test_says_when_it_does_not_fit():
    fits = simulate_memory(program(STEP), capacity_bytes=112 * MIB)
    assert fits.fits
    assert fits.excess_bytes == 0
    small = simulate_memory(program(STEP), capacity_bytes=80 * MIB)
    assert not small.fits
    assert small.excess_bytes == small.peak_reserved_bytes - 80 * MIB > 0
    assert small.peak_allocated_bytes == fits.peak_allocated_bytes


def test_memory_pressure_releases_cached_segments():
    rows = [(40 * MIB, "temporary", 0, 1, "", "first"), (60 * MIB, "temporary", 2, 3, "", "second")]
    roomy, tight = (simulate_memory(program(rows), c, steps=1) for c in (None, 64 * MIB))
    assert roomy.peak_reserved_bytes == 100 * MIB
    assert tight.peak_reserved_bytes == 60 * MIB
    assert tight.fits
    assert tight.releases == 1


def test_empty_and_zero_byte_storages():
    assert simulate_memory(program([])).peak_allocated_bytes == 0
    trace = simulate_memory(program([(0, "activation", 0, 1, "", "")]))
    assert trace.peak_reserved_bytes == 0
    with pytest.raises(InvalidValueError, match="0 steps"):
        simulate_memory(program([]), steps=0)


lives = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 4000), st.integers(1, 30).map(lambda m: m * MIB)),
        st.sampled_from(["activation", "gradient", "parameter", "cache"]),
        st.integers(-1, 5),
        st.one_of(st.none(), st.integers(1, 4)),
        st.just("m"),
        st.just("l"),
    ).map(lambda r: (*r[:3], None if r[3] is None else min(6, max(0, r[2]) + r[3]), *r[4:])),
    max_size=25,
)


@given(lives, st.integers(1, 3), st.booleans())
@settings(max_examples=100, deadline=None)
def test_peak_is_the_largest_and_adds_up(rows, steps, expandable):
    p = program(rows, ops=6)
    trace = simulate_memory(p, steps=steps, expandable_segments=expandable)
    assert trace.peak_allocated_bytes == trace.allocated_bytes.max()
    assert trace.peak_reserved_bytes == trace.reserved_bytes.max()
    assert (trace.reserved_bytes >= trace.allocated_bytes).all()
    assert sum(nbytes for _, nbytes in trace.at_peak) == trace.peak_allocated_bytes
    assert trace.allocated_bytes[trace.peak_op + 1] == trace.peak_allocated_bytes
    curves = dict(trace.by_category)
    assert (sum(curves.values(), 0 * trace.allocated_bytes) == trace.allocated_bytes).all()
    assert dict(trace.at_peak) == {
        c: v[trace.peak_op + 1] for c, v in curves.items() if v[trace.peak_op + 1]
    }
    again = simulate_memory(p, steps=steps, expandable_segments=expandable)
    assert (again.reserved_bytes == trace.reserved_bytes).all()


@given(lives)
@settings(max_examples=60, deadline=None)
def test_first_step_follows_the_lifetimes(rows):
    """Summed by hand from the lifetimes; expandable blocks are exactly the rounded size."""
    trace = simulate_memory(program(rows, ops=6), steps=1, expandable_segments=True)
    for at in range(-1, 6):
        alive = [r for r in rows if r[2] <= at and (r[3] is None or r[3] > at)]
        assert trace.allocated_bytes[at + 1] == sum(-(-r[0] // 512) * 512 for r in alive)


@given(lives, st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_steps_do_not_pile_up(rows, steps):
    """From the second step on every step holds the same: nothing leaks."""
    p = program(rows, ops=6)
    trace, later = (simulate_memory(p, steps=n, expandable_segments=True) for n in (steps, 9))
    assert (later.allocated_bytes == trace.allocated_bytes).all()


def test_counters_lie_where_the_device_works():
    """Read beside what the device does, a curve on the host's clock would be early by its lead."""
    step = costed([call(kernel(50)), call(kernel(50)), call(kernel(50)), call(kernel(50))])
    trace = simulate_memory(program(STEP), steps=1)
    timeline = attach_memory(simulate(step), trace).timeline
    allocated, reserved = timeline.counters
    assert (allocated.name, reserved.name, allocated.unit) == ("allocated", "reserved", "bytes")
    assert (np.diff(allocated.time_ns) > 0).all()
    assert allocated.value.max() == trace.peak_allocated_bytes
    device = timeline.events.start_ns[timeline.events.kind < 4]
    assert allocated.time_ns[0] == device[0]
    assert allocated.time_ns[2] - allocated.time_ns[1] == pytest.approx(51 * US * 1e9, abs=2000)
    assert attach_memory(timeline, trace).counters[0].name == "allocated"
    assert len(attach_memory(timeline, trace).counters) == 2


def test_operators_without_device_work_keep_their_peak():
    """Several points at one moment once hid the highest of them."""
    step = costed([call(kernel(50)), call(), call(), call(kernel(50))])
    trace = simulate_memory(program(STEP), steps=1)
    allocated = attach_memory(simulate(step).timeline, trace).counters[0]
    assert (np.diff(allocated.time_ns) > 0).all()
    assert allocated.value.max() == trace.peak_allocated_bytes


def test_counters_inside_a_graph_follow_the_device():
    step = costed([call(kernel(50)) for _ in range(4)], graph=True)
    trace = simulate_memory(program(STEP), steps=1)
    allocated = attach_memory(simulate(step).timeline, trace).counters[0]
    assert (np.diff(allocated.time_ns) >= 0).all()
    assert allocated.time_ns[2] - allocated.time_ns[1] == pytest.approx(50_000, abs=1)


def test_the_memory_that_a_build_freed_stays_reserved_and_serves_the_steps():
    built = replace(program(STEP), build_peak_bytes=500 * MIB)
    trace = simulate_memory(built)
    assert trace.peak_reserved_bytes == 502 * MIB  # small requests have segments of their own
    assert trace.peak_allocated_bytes == simulate_memory(program(STEP)).peak_allocated_bytes
    little = simulate_memory(replace(built, build_peak_bytes=8 * MIB))
    assert little.peak_reserved_bytes == simulate_memory(program(STEP)).peak_reserved_bytes
    # What a device cannot hold was not there.
    assert simulate_memory(built, 400 * MIB).peak_reserved_bytes < 400 * MIB


def test_what_a_graph_of_eager_kernels_makes_lies_in_its_own_pool():
    """Reserved, not allocated: a replay asks for nothing. What outlives the step is allocated."""
    step = program(STEP)
    eager = replace(step, ops=tuple(replace(o, phase="forward") for o in step.ops))
    graphed = replace(eager, compiled="cudagraphs")
    trace, own = simulate_memory(graphed, steps=1), simulate_memory(eager, steps=1)
    assert own.peak_allocated_bytes == 90 * MIB
    assert (trace.allocated_bytes // MIB).tolist() == [40, 20, 20, 40, 40]
    assert sum(life.nbytes for life in trace.lives if life.storage.category == "activation") == 512
    assert trace.peak_reserved_bytes >= trace.peak_allocated_bytes + 70 * MIB
    replayed = tuple(replace(o, graph=1) for o in eager.ops)
    trace = simulate_memory(replace(eager, ops=replayed), steps=1)
    assert trace.peak_allocated_bytes == 40 * MIB + 512
