"""Two runs side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders import H200, TimelineBuilder, matmul, streaming
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis import analyze
from gpuscope.analysis.breakdown import MOVING, WAITING
from gpuscope.analysis.compare import Comparison, Difference, _alike, compare
from gpuscope.analysis.types import ModuleShare, Share
from gpuscope.document.text import render
from gpuscope.run import Run
from gpuscope.timeline.types import Recorded


def run(builder: TimelineBuilder, name: str = "toy") -> Run:
    timeline = builder.build()
    analysis = analyze(timeline, on=H200)
    return Run(
        name=name,
        target=H200.name,
        device_id=H200.id,
        origin="predicted",
        step_time_s=analysis.step_s,
        step_time_interval_s=(0.0, 0.0),
        device_busy_s=0.0,
        host_busy_s=None,
        peak_memory_bytes=None,
        reserved_memory_bytes=None,
        energy_j=None,
        fits=None,
        timeline=timeline,
        analysis=analysis,
    )


def step(mm_us: float, add_us: float, idle_us: float = 0.0, adds: int = 1) -> TimelineBuilder:
    b = TimelineBuilder()
    mm, add = b.op("aten::mm"), b.op("aten::add")
    b.work(0, mm_us, cost=matmul(mm_us), op=mm, launch_us=-5)
    now = mm_us
    for _ in range(adds):
        b.work(now, now + add_us / adds, cost=streaming(add_us / adds), op=add, launch_us=-4)
        now += add_us / adds
    b.step(0, now + idle_us)
    return b


def row(rows: tuple[Difference, ...], label: str) -> Difference:
    return next(found for found in rows if found.label == label)


def check_sums(found: Comparison) -> None:
    tables = [found.classes, found.kinds, found.operators, found.phases]
    tables += [found.modules] if found.modules else []  # empty without parts of a model
    for rows in tables:
        total = sum(one.difference_s for one in rows)
        assert total == pytest.approx(found.difference_s, abs=1e-12)
        sizes = [abs(one.difference_s) for one in rows]
        assert sizes == sorted(sizes, reverse=True)


def test_rows_add_up_and_the_largest_comes_first() -> None:
    found = compare(run(step(100, 50, 30)), run(step(60, 45, 0)))
    assert found.difference_s == pytest.approx(-75e-6)
    assert found.speedup == pytest.approx(180 / 105)
    check_sums(found)
    assert found.operators[0].label == "aten::mm"
    assert found.operators[0].difference_s == pytest.approx(-40e-6)
    assert row(found.operators, "idle").difference_s == pytest.approx(-30e-6)


@given(*[st.integers(1, 200)] * 4, st.integers(0, 100), st.integers(0, 100))
def test_rows_always_add_up(a: int, b: int, c: int, d: int, e: int, f: int) -> None:
    check_sums(compare(run(step(a, b, e)), run(step(c, d, f))))


def test_a_run_is_equal_to_itself() -> None:
    one = run(step(100, 50, 30))
    found = compare(one, one)
    assert found.difference_s == 0
    assert all(not one.reason for one in found.classes)
    assert found.summary.startswith("Both take")


def test_a_host_that_delays_one_run_only_is_named() -> None:
    found = compare(run(step(100, 50, 80)), run(step(100, 50, 0)))
    idle = row(found.classes, "idle: host dispatching")
    assert idle.reason == "the host holds the first run up, the second hardly"
    assert render(idle.reason, "zh") != idle.reason


def test_another_limiter_is_named() -> None:
    a, b = TimelineBuilder(), TimelineBuilder()
    a.work(0, 90, cost=matmul(90), op=a.op("aten::mm"))
    b.work(0, 30, cost=streaming(30), op=b.op("aten::mm"))
    found = compare(run(a), run(b))
    told = row(found.operators, "aten::mm")
    assert told.reason == "limited by tensor core in the first run, by memory in the second"
    assert render(told.reason, "zh") == "第一个运行受张量核心限制，第二个受显存限制"


def test_names_are_in_both_languages() -> None:
    one = run(step(100, 50, 30))
    found = compare(one, replace(one, origin="measured"))
    assert (found.a, found.b) == ("predicted", "measured")
    assert (render(found.a, "zh"), render(found.b, "zh")) == ("预测", "实测")
    faster = compare(one, replace(run(step(60, 45, 0)), origin="measured"))
    assert faster.summary.startswith("measured is 1.71× as fast as predicted")
    assert render(faster.summary, "zh").startswith("实测 的速度是 预测 的 1.71 倍")


@pytest.mark.parametrize("paths", [("",), ("", "(optimizer)"), ("(optimizer)",)])
def test_a_model_without_parts_is_not_held_against_modules(paths: tuple[str, ...]) -> None:
    def with_modules(*paths: str) -> Run:
        one = run(step(100, 50, 30))
        modules = tuple(ModuleShare(p, "", 0, 75e-6, 75e-6, 0, 0, 0, 0) for p in paths)
        return replace(one, analysis=replace(one.analysis, modules=modules))

    whole, parts = with_modules(*paths), with_modules("", "0", "1")
    assert compare(whole, parts).modules == ()
    assert compare(parts, whole).modules == ()
    assert compare(parts, parts).modules


def test_fewer_launches_are_named() -> None:
    found = compare(run(step(10, 60, adds=6)), run(step(10, 20, adds=1)))
    assert row(found.operators, "aten::add").reason == "1 launches instead of 6"


def test_less_work_is_told_from_a_higher_rate() -> None:
    less = compare(run(step(100, 1)), run(step(50, 1)))
    assert row(less.operators, "aten::mm").reason == "50 % fewer FLOPs"
    a, b = TimelineBuilder(), TimelineBuilder()
    a.work(0, 100, cost=matmul(100, 0.4), op=a.op("aten::mm"))
    b.work(0, 50, cost=matmul(50, 0.8), op=b.op("aten::mm"))
    assert row(compare(run(a), run(b)).operators, "aten::mm").reason == (
        "2.00× the FLOPs per second"
    )


def test_what_only_one_run_does_is_named() -> None:
    a = step(100, 50)
    b = TimelineBuilder()
    b.work(0, 100, cost=matmul(100), op=b.op("aten::mm"))
    found = compare(run(a), run(b))
    assert row(found.operators, "aten::add").reason == "only in the first run"


def test_a_run_without_phases_has_no_phase_table() -> None:
    a = TimelineBuilder(origin="measured")
    a.work(0, 10)
    found = compare(run(a), run(step(10, 10)))
    assert found.phases == ()
    check_sums_without = sum(one.difference_s for one in found.operators)
    assert check_sums_without == pytest.approx(found.difference_s)


def test_the_summary_names_the_faster_and_the_main_part() -> None:
    found = compare(run(step(100, 50), "before"), run(step(50, 50), "after"))
    assert found.summary.startswith("after is 1.50× as fast as before")
    assert "compute-bound" in found.summary
    assert "1.50 倍" in render(found.summary, "zh")
    assert "计算受限" in render(found.summary, "zh")


def test_runs_are_named_by_what_tells_them_apart() -> None:
    one, other = run(step(100, 50)), run(step(50, 50))
    elsewhere = replace(other, target="NVIDIA B200", origin="measured")
    found = compare(one, elsewhere)
    assert (found.a, found.b) == (f"{H200.name}, predicted", "NVIDIA B200, measured")
    assert compare(one, one).a == "toy"


def recorded(kernel: str, convolution: str = "aten::cudnn_convolution") -> Run:
    """One convolution, run by this kernel, as a recording has it."""
    b = TimelineBuilder()
    b.work(0, 100 if kernel == "slow" else 60, op=b.op(convolution), name=kernel)
    b.step(0, 100 if kernel == "slow" else 60)
    one = run(b)
    count = len(one.timeline.events)
    nothing = np.full(count, -1)
    columns = Recorded(
        np.arange(count),
        np.full((count, 3), -1),
        np.full((count, 3), -1),
        nothing,
        nothing,
        np.full(count, np.nan),
        *[nothing] * 7,
    )
    return replace(one, timeline=replace(one.timeline, recorded=columns))


def test_another_kernel_is_named() -> None:
    found = compare(recorded("slow"), recorded("fast"))
    assert found.operators[0].label == "aten::convolution"
    assert found.operators[0].reason == "another kernel: fast instead of slow"
    assert "slow" in render(found.operators[0].reason, "zh")
    check_sums(found)


def test_one_operator_under_two_names_is_one_row() -> None:
    found = compare(recorded("slow"), recorded("fast", "aten::convolution"))
    assert [row.label for row in found.operators if row.label != "idle"] == ["aten::convolution"]


def test_modules_add_up() -> None:
    def with_modules(*own_us: float) -> Run:
        one = run(step(100, 50, 30))
        modules = tuple(
            ModuleShare(path, "Linear", 1, us * 1e-6, us * 1e-6, 0, 0, 0, 0)
            for path, us in zip("ab", own_us, strict=False)
        )
        return replace(one, analysis=replace(one.analysis, modules=modules))

    found = compare(with_modules(100, 40), with_modules(70, 40))
    assert found.modules[0].difference_s == pytest.approx(-30e-6)
    check_sums(found)
    assert compare(with_modules(), with_modules(1, 1)).modules == ()


def test_communication_is_one_class_unless_both_runs_tell_waiting_apart() -> None:
    whole = (Share("communication", 3.0), Share("compute-bound", 1.0))
    apart = (Share(WAITING, 2.0), Share(MOVING, 1.0), Share("compute-bound", 1.0))
    one, two = _alike(apart, whole)
    assert {s.label: s.time_s for s in one} == {s.label: s.time_s for s in two}
    assert _alike(apart, apart) == (apart, apart)
    assert _alike(whole, whole) == (whole, whole)
