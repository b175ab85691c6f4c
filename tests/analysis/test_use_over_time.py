"""Use of the device's units over a step: what goes in comes out, and known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders import BANDWIDTH, H200, PEAK_BF16, TimelineBuilder, kernel, matmul, streaming
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis import analyze
from gpuscope.analysis.use_over_time import use_over_time
from gpuscope.analysis.use_types import UseOverTime, UseSeries
from gpuscope.cost.types import Kernel
from gpuscope.timeline.types import Counter


def used(costs: list[Kernel], *, bins: int = 40, **fields: object) -> UseOverTime:
    made = TimelineBuilder()
    made.chain(costs, **fields)  # type: ignore[arg-type]
    found = use_over_time(made.build(), H200, bins=bins)
    assert found is not None
    return found


def series(found: UseOverTime, key: str) -> UseSeries:
    return next(s for s in found.series if s.key == key)


def integral(found: UseOverTime, one: UseSeries) -> float:
    return sum(one.values) * (found.end_ns - found.start_ns) * 1e-9 / found.bins


def test_half_a_step_of_product_at_seventy_per_cent_of_the_peak() -> None:
    found = used([matmul(50.0, 0.7), streaming(50.0, 0.9)], bins=10)
    tensor = series(found, "tensor")
    assert tensor.values[:5] == pytest.approx([0.7] * 5)
    assert tensor.values[5:] == pytest.approx([0.0] * 5)
    assert tensor.total == pytest.approx(0.7 * PEAK_BF16 * 50e-6)
    memory = series(found, "memory")
    assert memory.values[5:] == pytest.approx([0.9 * BANDWIDTH] * 5)
    assert memory.limit == BANDWIDTH
    assert memory.parts["read"] == pytest.approx(memory.parts["written"], rel=1e-3)


kernels = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 300), st.floats(0.01, 0.9)).map(lambda x: matmul(*x)),
        st.tuples(st.integers(1, 300), st.floats(0.01, 0.9)).map(lambda x: streaming(*x)),
    ),
    min_size=1,
    max_size=20,
)


@given(kernels, st.integers(1, 60))
def test_what_kernels_move_and_compute_is_what_the_curves_hold(
    costs: list[Kernel], bins: int
) -> None:
    found = used(costs, bins=bins, gap_us=3.0)
    memory = series(found, "memory")
    moved = sum(k.read_bytes + k.written_bytes for k in costs)
    assert memory.total == pytest.approx(moved)
    assert integral(found, memory) == pytest.approx(moved)
    assert memory.parts["read"] + memory.parts["written"] == pytest.approx(moved)
    flops = sum(k.flops for k in costs)
    if flops:
        tensor = series(found, "tensor")
        assert tensor.total == pytest.approx(flops)
        assert integral(found, tensor) * PEAK_BF16 == pytest.approx(flops)


def test_power_adds_up_to_the_energy_of_the_step() -> None:
    made = TimelineBuilder()
    made.chain([matmul(500.0, 0.3), streaming(300.0, 0.5)])
    timeline = made.build()
    found = use_over_time(timeline, H200)
    told = analyze(timeline, on=H200).energy
    assert found is not None
    assert told is not None
    power = series(found, "power")
    assert power.total == pytest.approx(told.total_j, rel=1e-6)
    assert integral(found, power) == pytest.approx(power.total)
    assert power.limit == 700


def test_the_power_limit_holds_for_the_average() -> None:
    power = series(used([matmul(5000.0, 1.0, read_bytes=2e10)]), "power")
    assert np.mean(power.values) == pytest.approx(0.98 * 700, rel=0.02)


def test_a_recorded_counter_is_taken_as_it_is() -> None:
    made = TimelineBuilder()
    made.chain([matmul(100.0)])
    counter = Counter("power", "W", np.array([0, 50_000]), np.array([200.0, 600.0]))
    timeline = replace(made.build(), counters=(counter,))
    found = use_over_time(timeline, H200, bins=4)
    assert found is not None
    assert series(found, "power").values == (200.0, 200.0, 600.0, 600.0)
    assert series(found, "power").origin == "measured"


def test_multiprocessors_are_not_guessed() -> None:
    found = used([kernel(10.0, read_bytes=1e6)])
    assert "sm" not in {s.key for s in found.series}


def test_copies_and_collectives_have_their_own_curves() -> None:
    made = TimelineBuilder()
    copy = kernel(
        20.0,
        name="memcpy_h2d_pinned",
        kind="transfer",
        lane="copy_h2d",
        least_bytes=1e6,
        written_bytes=1e6,
    )
    talk = kernel(
        40.0,
        name="collective_all_reduce",
        kind="collective",
        lane="link",
        read_bytes=8e6,
        note="8 ranks in one scale-up domain",
    )
    made.work(0, 20, kind="memcpy", stream="copy H2D", cost=copy)
    made.work(20, 60, kind="communication", stream="link", cost=talk)
    made.work(60, 100, cost=matmul(40.0))
    found = use_over_time(made.build(), H200, bins=10)
    assert found is not None
    assert series(found, "h2d").total == 1e6
    assert series(found, "h2d").values[:2] == pytest.approx([5e10] * 2)
    assert series(found, "link").total == pytest.approx(14e6)
    assert integral(found, series(found, "link")) == pytest.approx(14e6)
    assert series(found, "link").limit == 450e9


def test_phases_follow_the_operators() -> None:
    made = TimelineBuilder()
    forward = made.op("aten::mm", phase="forward")
    backward = made.op("aten::mm", phase="backward")
    made.work(0, 40, cost=matmul(40.0), op=forward)
    made.work(50, 100, cost=matmul(50.0), op=backward)
    found = use_over_time(made.build(), H200, bins=10)
    assert found is not None
    assert [(p.name, p.start_ns, p.end_ns) for p in found.phases] == [
        ("forward", 0, 50_000),
        ("backward", 50_000, 100_000),
    ]


def test_of_several_steps_the_median_one_is_taken() -> None:
    made = TimelineBuilder()
    made.chain([matmul(50.0)] * 4)
    for start, end in ((0, 40), (40, 90), (90, 200)):
        made.step(start, end)
    found = use_over_time(made.build(), H200)
    assert found is not None
    assert (found.start_ns, found.end_ns) == (40_000, 90_000)
    assert series(found, "tensor").total == pytest.approx(0.7 * PEAK_BF16 * 50e-6)


def test_a_recording_whose_kernels_nobody_knows_says_nothing() -> None:
    made = TimelineBuilder(origin="measured")
    made.chain([kernel(100.0), kernel(50.0)])
    found = use_over_time(made.build(), H200)
    assert found is None or {s.key for s in found.series} <= {"sm", "power"}
    assert use_over_time(TimelineBuilder().build(), H200) is None


def test_without_a_device_there_are_no_limits() -> None:
    made = TimelineBuilder()
    made.chain([streaming(50.0)])
    found = use_over_time(made.build(), None)
    assert found is not None
    assert {s.key for s in found.series} == {"memory", "l2"}
    assert series(found, "memory").limit is None


def test_l2_bytes_by_group_for_tiled_kernels_only() -> None:
    found = used([matmul(50.0, tile=(128, 256, 64)), streaming(10.0)])
    assert len(found.l2_bytes) == 1


@pytest.mark.parametrize(
    ("known_us", "drawn", "least"), [(99, True, False), (80, True, True), (40, False, False)]
)
def test_what_is_known_in_part_is_a_lower_bound(known_us: int, drawn: bool, least: bool) -> None:
    made = TimelineBuilder(origin="measured")
    made.work(0, known_us, cost=streaming(float(known_us)))
    made.work(known_us, 100, cost=kernel(100.0 - known_us))
    found = use_over_time(made.build(), H200)
    curves = {s.key: s for s in found.series} if found else {}
    assert ("memory" in curves) is drawn
    assert not drawn or curves["memory"].is_least is least
    assert ("power" in curves) is (known_us >= 90)


def test_float32_products_keep_the_vector_lanes_and_leave_the_tensor_cores_at_rest() -> None:
    peak = H200.peak_flops_per_s("float32", tensor_core=False)
    found = used([matmul(100.0, dtype="float32", flops=0.5 * peak * 100e-6)], bins=4)
    assert series(found, "vector").values == pytest.approx([0.5] * 4)
    assert series(found, "tensor").values == (0.0,) * 4
    assert found.matrix_flops == pytest.approx(0.5 * peak * 100e-6)
