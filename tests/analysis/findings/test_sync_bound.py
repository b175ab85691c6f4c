"""Synchronisations that cost the host its lead."""

from __future__ import annotations

import pytest
from builders import H200, TimelineBuilder, find, streaming

from gpuscope.analysis import analyze


def waiting(idle_us: float) -> TimelineBuilder:
    b = TimelineBuilder()
    b.host(-20, 1, name="aten::mm")
    b.work(0, 60, cost=streaming(60), launch_us=-9)
    b.host(1, 60, kind="sync", name="item")
    b.host(60, 60 + idle_us, name="aten::mm")
    b.work(60 + idle_us, 100, cost=streaming(40 - idle_us), launch_us=60 + idle_us - 4)
    b.step(0, 100)
    return b


def test_idle_after_a_wait_is_found_and_the_wait_named() -> None:
    found = find(waiting(20), "sync_bound")
    assert found is not None
    assert "item ×1" in found.evidence
    assert "20 %" in found.title


def test_the_gain_is_no_more_than_the_slower_of_host_and_device() -> None:
    found = find(waiting(20), "sync_bound")
    assert found is not None
    # 80 us of device work, 21 us of host work: the step could take 80 us.
    assert found.max_gain_s == pytest.approx(20e-6)


def test_host_work_limits_the_gain() -> None:
    b = TimelineBuilder()
    b.work(0, 30, cost=streaming(30), launch_us=-9)
    b.host(0, 30, kind="sync", name="item")
    b.host(30, 90, name="aten::mm")
    b.work(90, 100, cost=streaming(10), launch_us=86)
    b.step(0, 100)
    found = find(b, "sync_bound")
    assert found is not None
    # 40 us of device work, but 60 us of host work: the step could take 60 us.
    assert found.max_gain_s == pytest.approx(40e-6)


def test_a_short_wait_is_not_worth_a_sentence() -> None:
    assert find(waiting(3), "sync_bound") is None


def test_a_host_that_is_slower_still_has_nothing_to_gain() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, launch_us=-9)
    b.host(0, 10, kind="sync", name="item")
    b.host(10, 95, name="aten::mm")
    b.work(99, 100, launch_us=95)
    b.step(0, 100)
    found = find(b, "sync_bound")
    # The wait cost 10 us; the 4 us in which nothing is recorded of the host are no wait.
    assert found is not None
    assert found.max_gain_s == pytest.approx(10e-6)
    b.host(95, 100, name="aten::mul")
    b.host(0, 10, name="aten::sum")
    assert find(b, "sync_bound") is not None


def test_the_wait_is_named_with_its_place() -> None:
    b = waiting(20)
    b.host(0.5, 61, name="aten::_local_scalar_dense")
    found = find(b, "sync_bound")
    assert found is not None
    assert "item in aten::_local_scalar_dense (100 %)" in found.evidence


def layers(items: int, launches: int, dispatch_us: float = 20.0) -> TimelineBuilder:
    """Launches of 4-us kernels; after every `launches` of them an operator waits for them."""
    b, now = TimelineBuilder(origin="measured"), 0.0
    for _ in range(items):
        for _ in range(launches):
            b.host(now + 5, now + dispatch_us, name="aten::mm")
            b.work(now + dispatch_us, now + dispatch_us + 4, launch_us=now + dispatch_us - 4)
            now += dispatch_us
        b.host(now, now + 10, name="aten::_local_scalar_dense")
        b.host(now + 1, now + 5, kind="sync", name="cudaStreamSynchronize")
        now += 10
    b.step(0, now)
    return b


def test_waits_layer_after_layer_come_before_the_hosts_pace() -> None:
    found = analyze(layers(10, 2).build(), on=H200).findings
    assert [f.kind for f in found[:2]] == ["sync_bound", "host_bound"]
    first, second = found[:2]
    # 10 x (2 x 20 + 10) us; the device works 80 us; the waits and their operators take 100 us.
    # Removing them gains 100 us; the launching between them is the host's, and comes after.
    assert first.max_gain_s == pytest.approx(100e-6)
    assert first.before == ("host_bound",)
    assert "10 times a step" in first.title
    assert "up to 100 µs (20 %) less. Up to 320 µs more" in first.evidence
    assert second.max_gain_s == pytest.approx(320e-6)
    assert "Once the waits are gone" in second.title


def test_rare_waits_do_not() -> None:
    found = analyze(layers(2, 10).build(), on=H200).findings
    assert found[0].kind == "host_bound"
    assert "Once" not in found[0].title
