"""The host that launches too slowly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import TimelineBuilder, find, streaming

from gpuscope.analysis import analyze
from gpuscope.analysis.types import Finding
from gpuscope.document.text import render


def eager(kernel_us: float, period_us: float, count: int = 20) -> TimelineBuilder:
    """Kernels whose launches come every `period_us`; 4 us from launch to start."""
    b = TimelineBuilder()
    for i in range(count):
        now = i * period_us
        b.work(now + 4, now + 4 + kernel_us, cost=streaming(kernel_us), launch_us=now)
    b.step(0, count * period_us)
    return b


def test_late_launches_make_it_host_bound() -> None:
    found = find(eager(6, 20), "host_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(20 * 14e-6)
    assert "The host sets the pace" in found.title
    assert "120 µs of the 400 µs step" in found.evidence


def test_a_smaller_delay_is_not_called_the_pace() -> None:
    found = find(eager(20, 25), "host_bound")
    assert found is not None
    assert "The host delays the device" in found.title


def test_a_busy_device_is_never_host_bound() -> None:
    assert find(eager(19.5, 20), "host_bound") is None


def test_idle_for_another_reason_is_not_host_bound() -> None:
    b = TimelineBuilder()
    b.work(0, 40, cost=streaming(40), launch_us=-9)
    b.host(-5, 45, kind="sync", name="item")
    b.work(90, 100, cost=streaming(10), launch_us=85)
    assert find(b, "host_bound") is None


def test_the_call_that_holds_the_host_up_is_named_and_memory_calls_change_the_hint() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 20, launch_us=-5)
    b.host(20, 85, name="aten::empty")
    b.host(22, 80, kind="other", name="cudaMalloc")
    b.work(90, 100, launch_us=86)
    found = find(b, "host_bound")
    assert found is not None
    assert "cudaMalloc in aten::empty (83 %)" in found.evidence
    assert "caching allocator" in found.hint


def test_garbage_collection_changes_the_hint() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 20, launch_us=-5)
    b.host(22, 80, kind="python", name="<built-in function collect>")
    b.work(90, 100, launch_us=86)
    found = find(b, "host_bound")
    assert found is not None
    assert "gc.disable()" in found.hint


def test_a_wait_that_nothing_recorded_explains_is_not_the_hosts_fault() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 20, launch_us=-5)
    b.host(20, 520, kind="sync", name="hipMemcpyWithStream")
    b.work(720, 1000, launch_us=716)
    found = find(b, "host_bound")
    assert found is None


def on_the_processor(b: TimelineBuilder) -> list[Finding]:
    """What is said where the "device" is the host's own processor."""
    timeline = b.build()
    lanes = tuple(
        replace(lane, name="cpu") if lane.kind == "stream" else lane for lane in timeline.lanes
    )
    return list(analyze(replace(timeline, lanes=lanes)).findings)


def test_a_run_on_the_processor_has_no_launches_to_wait_for() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(20):
        b.host(20 * i, 20 * i + 18, name="aten::add")
        b.work(20 * i + 8, 20 * i + 12, launch_us=20 * i + 7)
    b.step(0, 400)
    found = on_the_processor(b)
    (finding,) = [f for f in found if f.kind == "host_bound"]
    assert "between operators" in finding.title
    assert render(finding.title, "zh").startswith("Python 与框架")
    for each in found:
        said = f"{each.title} {each.evidence} {each.hint}"
        assert "launch" not in said
        assert "CUDA" not in said
    assert not {f.kind for f in found} & {"launch_bound", "small_kernels"}
    assert {f.kind for f in analyze(b.build()).findings} & {"launch_bound", "small_kernels"}
