"""Breakdowns add up to the step, and each kernel stands in the right class."""

from __future__ import annotations

import pytest
from builders import H200, TimelineBuilder, kernel, matmul, streaming
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis import Analysis, analyze
from gpuscope.analysis.breakdown import WAITING, _waiting_apart
from gpuscope.analysis.types import Share


def by_label(shares: tuple[object, ...]) -> dict[str, float]:
    return {share.label: share.time_s for share in shares}  # type: ignore[attr-defined]


def total(shares: tuple[object, ...]) -> float:
    return sum(share.time_s for share in shares)  # type: ignore[attr-defined]


@pytest.fixture
def mixed() -> Analysis:
    b = TimelineBuilder()
    mm = b.op("aten::mm", phase="forward")
    add = b.op("aten::add", phase="backward")
    reduce = b.op("c10d::allreduce_", phase="backward")
    copy = b.op("aten::_to_copy", phase="input")
    b.work(0, 100, cost=matmul(100), launch_us=-9, op=mm)
    b.work(100, 150, cost=streaming(50), launch_us=-8, op=add)
    b.work(150, 152.5, cost=kernel(2.5, limiter="latency"), launch_us=-7, op=add)
    b.work(
        140,
        200,
        kind="communication",
        launch_us=-6,
        op=reduce,
        stream="link",
        cost=kernel(60, name="all_reduce", kind="collective", limiter="link"),
    )
    b.work(
        190,
        240,
        kind="memcpy",
        launch_us=-5,
        op=copy,
        stream="copy H2D",
        cost=kernel(50, name="memcpy_h2d", kind="transfer", limiter="link", least_bytes=1e6),
    )
    b.step(0, 300)
    return analyze(b.build(), on=H200)


def test_classes_add_up_to_the_step(mixed: Analysis) -> None:
    assert mixed.step_s == pytest.approx(300e-6, rel=1e-12)
    assert total(mixed.classes) == pytest.approx(mixed.step_s, rel=1e-12)
    assert by_label(mixed.classes) == pytest.approx(
        {
            "compute-bound": 100e-6,
            "bandwidth-bound": 50e-6,
            "launch-bound": 2.5e-6,
            "communication": 47.5e-6,
            "transfers": 40e-6,
            "idle: host dispatching": 60e-6,
        }
    )


def test_operators_kinds_and_phases_add_up_to_the_busy_time(mixed: Analysis) -> None:
    for shares in (mixed.operators, mixed.kinds, mixed.phases):
        assert total(shares) == pytest.approx(240e-6, rel=1e-12)
    assert by_label(mixed.phases) == pytest.approx(
        {"forward": 100e-6, "backward": 100e-6, "input": 40e-6}
    )
    assert mixed.operators[0].label == "aten::mm"
    assert by_label(mixed.kinds)["pointwise"] == pytest.approx(52.5e-6)


def test_best_is_the_roofline_of_each_kernel(mixed: Analysis) -> None:
    best = {share.label: share.best_s for share in mixed.classes}
    assert best["compute-bound"] == pytest.approx(70e-6)
    assert best["bandwidth-bound"] == pytest.approx(45e-6)
    assert best["communication"] is None
    link = H200.host_link_bandwidth_bytes_per_s
    assert link is not None
    assert best["transfers"] == pytest.approx(1e6 / link)


def test_a_short_kernel_that_its_work_does_not_explain_is_launch_bound() -> None:
    b = TimelineBuilder()
    tiny = kernel(2.4, limiter="memory", memory_s=0.2e-6)
    full = kernel(2.4, limiter="memory", memory_s=2.0e-6)
    b.work(0, 2.4, cost=tiny)
    b.work(2.4, 4.8, cost=full)
    assert by_label(analyze(b.build()).classes) == pytest.approx(
        {"launch-bound": 2.4e-6, "bandwidth-bound": 2.4e-6}
    )


def test_a_kernel_without_limiter_goes_where_its_work_points() -> None:
    b = TimelineBuilder()
    b.work(0, 20, cost=kernel(20, limiter="unknown", compute_s=15e-6, memory_s=4e-6))
    b.work(20, 50, cost=kernel(30, limiter="unknown", compute_s=4e-6, memory_s=25e-6))
    b.work(50, 90, cost=kernel(40, limiter="unknown", compute_s=4e-6, memory_s=5e-6))
    assert by_label(analyze(b.build()).classes) == pytest.approx(
        {"compute-bound": 20e-6, "bandwidth-bound": 30e-6, "not classified": 40e-6}
    )


def test_recorded_kernels_are_not_classified_but_copies_are() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 50, name="some_kernel")
    b.work(50, 70, kind="memcpy", name="Memcpy HtoD (Pinned -> Device)")
    b.work(70, 90, kind="memcpy", name="Memcpy DtoD (Device -> Device)")
    b.work(90, 92, kind="memset", name="Memset (Device)")
    found = analyze(b.build())
    assert by_label(found.classes) == pytest.approx(
        {
            "not classified": 50e-6,
            "transfers": 20e-6,
            "bandwidth-bound": 20e-6,
            "launch-bound": 2e-6,
        }
    )
    assert by_label(found.operators)["some_kernel"] == pytest.approx(50e-6)
    assert by_label(found.kinds) == pytest.approx(
        {"kernel": 50e-6, "memcpy": 40e-6, "memset": 2e-6}
    )
    assert found.phases == found.modules == found.tasks == ()
    assert found.roofline is None
    assert found.utilisation is None


def test_several_steps_are_averaged() -> None:
    b = TimelineBuilder()
    for start in (0, 100):
        b.work(start, start + 40, cost=matmul(40), launch_us=start - 5)
        b.step(start, start + 100)
    found = analyze(b.build(), on=H200)
    assert found.step_s == pytest.approx(100e-6)
    compute = next(share for share in found.classes if share.label == "compute-bound")
    assert compute.time_s == pytest.approx(40e-6)
    assert compute.count == 1
    assert compute.flops == pytest.approx(matmul(40).flops)
    assert compute.best_s == pytest.approx(28e-6)


def test_a_known_step_time_scales_idle_time_only() -> None:
    b = TimelineBuilder()
    b.work(0, 60, cost=matmul(60), launch_us=-5)
    b.step(0, 100)
    found = analyze(b.build(), step_time_s=80e-6)
    assert by_label(found.classes) == pytest.approx(
        {"compute-bound": 60e-6, "idle: host dispatching": 20e-6}
    )


def test_a_known_step_time_below_the_device_time_scales_it() -> None:
    b = TimelineBuilder()
    b.work(0, 60, cost=matmul(60), launch_us=-5)
    b.step(0, 100)
    found = analyze(b.build(), on=H200, step_time_s=50e-6)
    assert by_label(found.classes) == pytest.approx({"compute-bound": 50e-6})
    assert found.classes[0].best_s == pytest.approx(35e-6)


def test_time_outside_of_the_timeline_is_named() -> None:
    b = TimelineBuilder()
    b.work(0, 60, cost=matmul(60))
    found = analyze(b.build(), step_time_s=80e-6)
    assert by_label(found.classes)["idle: not in the timeline"] == pytest.approx(20e-6)


works = st.tuples(
    st.integers(0, 400),
    st.integers(1, 60),
    st.sampled_from(["kernel", "communication", "memcpy", "memset"]),
    st.sampled_from(["stream 7", "stream 20"]),
    st.booleans(),
)


@given(st.lists(works, min_size=1, max_size=15), st.integers(1, 3))
def test_everything_adds_up_whatever_overlaps(
    events: list[tuple[int, int, str, str, bool]], steps: int
) -> None:
    b = TimelineBuilder()
    op = b.op("aten::add", module="a.b")
    for start, length, kind, stream, known in events:
        cost = streaming(length) if known else None
        b.work(
            start,
            start + length,
            kind=kind,
            stream=stream,
            cost=cost,
            op=op if known else -1,
            launch_us=start - 3,
        )
    for step in range(steps):
        b.step(500 * step / steps, 500 * (step + 1) / steps)
    found = analyze(b.build(), on=H200)
    busy = sum(s.time_s for s in found.classes if not s.label.startswith("idle"))
    assert total(found.classes) == pytest.approx(found.step_s, rel=1e-9)
    for shares in (found.operators, found.kinds, found.phases):
        assert total(shares) == pytest.approx(busy, rel=1e-9)
    assert sum(m.time_s for m in found.modules if m.depth == 0) == pytest.approx(busy, rel=1e-9)
    for share in (*found.classes, *found.operators):
        assert share.best_s is None or share.best_s <= share.time_s * (1 + 1e-9)


@given(st.floats(0.0, 1.0))
def test_waiting_apart_keeps_the_sum(waiting_share: float) -> None:
    shares = (Share("compute-bound", 3.0), Share("communication", 2.0, count=4))
    found = by_label(_waiting_apart(shares, waiting_share))
    assert "communication" not in found
    assert found.get(WAITING, 0.0) == pytest.approx(2.0 * waiting_share)
    assert sum(found.values()) == pytest.approx(5.0)
    assert found["compute-bound"] == 3.0
    assert all(time > 0 for time in found.values())
