"""Who is at fault for idle time, on timelines with a known culprit."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, streaming
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.idle_spots import MOST_SPOTS, IdleSpot, idle_spots
from gpuscope.analysis.time_classes import rank_time


def spots(builder: TimelineBuilder) -> dict[tuple[str, str, str, str], float]:
    return {
        (s.cause, s.what, s.within, s.where): round(s.time_s * 1e6, 6)
        for s in idle_spots(builder.build(), 0)
    }


def test_a_slow_operator_and_its_python_line_are_named() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-5)
    b.host(-9, 45, kind="python", name="train.py(12): step")
    b.host(12, 40, kind="python", name="torch/nn/functional.py(9): embedding")
    b.host(15, 35, name="aten::index")
    b.work(40, 50, launch_us=36)
    assert spots(b) == {
        ("host dispatching", "aten::index", "", "train.py(12): step"): 20,
        ("host dispatching", "train.py(12): step", "", ""): 10,
    }


def test_allocations_are_named_with_their_operator() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-5)
    b.host(10, 40, name="aten::empty")
    b.host(12, 37, kind="other", name="cudaMalloc")
    b.work(40, 50, launch_us=38)
    assert spots(b)["host dispatching", "cudaMalloc", "aten::empty", ""] == 25


def test_a_wait_is_named_with_the_operator_around_it_and_the_lead_it_cost() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 40, launch_us=-5)
    b.host(-3, 42, name="aten::_local_scalar_dense")
    b.host(-2, 41, kind="sync", name="cudaStreamSynchronize")
    b.host(45, 60, name="aten::mul")
    b.work(62, 70, launch_us=58)
    (spot,) = idle_spots(b.build(), 0)
    assert (spot.cause, spot.what) == ("host synchronising", "cudaStreamSynchronize")
    assert spot.within == "aten::_local_scalar_dense"
    assert spot.time_s == pytest.approx(22e-6)
    assert spot.start_ns == 40_000
    assert spot.longest_s == pytest.approx(22e-6)


def test_the_loader_is_named_whatever_it_calls() -> None:
    b = TimelineBuilder(origin="measured")
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    b.work(0, 10, launch_us=-5)
    b.host(10, 40, name=name)
    b.host(12, 30, name="aten::stack")
    b.work(40, 50, launch_us=38)
    assert spots(b) == {("waiting for data", name, "", ""): 30}


def test_layers_of_one_kind_are_one_place() -> None:
    b = TimelineBuilder()
    for layer in range(4):
        op = b.op("aten::mm", module=f"layers.{layer}.mlp", phase="forward")
        start = 20 * layer
        b.host(start - 8, start + 2, name="aten::mm", op=op)
        b.work(start, start + 10, launch_us=start - 5, cost=streaming(10), op=op)
    found = idle_spots(b.build(), 0)
    assert {spot.where for spot in found if spot.what == "aten::mm"} == {"layers.*.mlp"}
    (spot,) = (spot for spot in found if spot.what == "aten::mm")
    assert spot.count == 3


def test_no_device_work_has_no_spots() -> None:
    b = TimelineBuilder(origin="measured")
    b.host(0, 50)
    b.step(0, 50)
    assert idle_spots(b.build(), 0) == ()


def test_the_known_step_scales_the_spots() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-5)
    b.work(30, 40, launch_us=26)
    (spot,) = idle_spots(b.build(), 0, idle_s=5e-6)
    assert spot.time_s == pytest.approx(5e-6)


def test_many_places_are_cut_to_the_largest_without_losing_time() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(3 * MOST_SPOTS):
        start = 40 * i
        b.work(start, start + 10, launch_us=start - 4)
        b.host(start + 11, start + 34, name=f"aten::op_{i}")
    found = idle_spots(b.build(), 0)
    assert len(found) <= MOST_SPOTS + 3
    assert sum(s.time_s for s in found) == pytest.approx(rank_time(b.build(), 0).idle_s)
    assert any(s.what == "other places" for s in found)


times = st.integers(0, 300)


@given(
    st.lists(st.tuples(times, st.integers(1, 30), st.integers(1, 100)), min_size=1, max_size=12),
    st.lists(st.tuples(times, st.integers(1, 50)), max_size=4),
    st.lists(st.tuples(times, st.integers(1, 80), st.sampled_from("abc")), max_size=6),
)
def test_spots_add_up_to_each_cause(
    works: list[tuple[int, int, int]],
    syncs: list[tuple[int, int]],
    operators: list[tuple[int, int, str]],
) -> None:
    b = TimelineBuilder(origin="measured")
    for start, length, lead in works:
        b.work(start, start + length, launch_us=start - lead)
    for start, length in syncs:
        b.host(start, start + length, kind="sync", name="item")
    for start, length, name in operators:
        b.host(start, start + length, name=name)
    timeline = b.build()
    by_cause: dict[str, float] = {}
    found: tuple[IdleSpot, ...] = idle_spots(timeline, 0)
    for spot in found:
        by_cause[spot.cause] = by_cause.get(spot.cause, 0.0) + spot.time_s
    assert by_cause == pytest.approx(dict(rank_time(timeline, 0).idle_by_cause), abs=1e-15)
    assert [s.time_s for s in found] == sorted((s.time_s for s in found), reverse=True)
