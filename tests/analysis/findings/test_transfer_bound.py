"""Copies that nothing hides."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, kernel, streaming


def copying(start_us: float) -> TimelineBuilder:
    """A 30-us copy of 1.5 MB that starts here; a kernel runs from 0 to 70 us."""
    b = TimelineBuilder()
    op = b.op("aten::_to_copy", phase="input")
    cost = kernel(30, kind="transfer", lane="copy_h2d", limiter="link", read_bytes=1.5e6)
    b.work(0, 70, cost=streaming(70), launch_us=-9)
    b.work(
        start_us, start_us + 30, kind="memcpy", stream="copy H2D", cost=cost, op=op, launch_us=-8
    )
    b.step(0, 100)
    return b


def test_an_exposed_copy_is_found_with_its_rate() -> None:
    found = find(copying(70), "transfer_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(30e-6)
    assert "1.43 MiB at 50.0 GB/s" in found.evidence


def test_only_the_exposed_part_counts() -> None:
    found = find(copying(50), "transfer_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(10e-6)


def test_a_hidden_copy_costs_nothing() -> None:
    assert find(copying(30), "transfer_bound") is None


def test_an_overlapped_copy_gets_another_advice() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 40, launch_us=-9)
    b.work(
        10,
        90,
        kind="memcpy",
        name="Memcpy HtoD (Pinned -> Device)",
        stream="stream 20",
        launch_us=-8,
    )
    b.work(90, 100, launch_us=-7)
    found = find(b, "transfer_bound")
    assert found is not None
    # 30 of 80 us run beside the kernel.
    assert found.max_gain_s == pytest.approx(50e-6)
    assert "1 copy takes 80.0 µs: 30.0 µs of it beside kernels, then 50.0 µs" in found.evidence
    assert "prefetch" in found.hint
    assert "pinned" not in found.hint


def test_pageable_copies_are_told_once() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 40, launch_us=-9)
    b.work(
        40,
        90,
        kind="memcpy",
        name="Memcpy HtoD (Pageable -> Device)",
        stream="stream 20",
        launch_us=-8,
    )
    b.work(90, 100, launch_us=-7)
    assert find(b, "pageable_copies") is not None
    assert find(b, "transfer_bound") is None


def _uploading(memories: list[str], origin: str) -> TimelineBuilder:
    """A kernel, then a copy of 20 us from each kind of host memory."""
    b = TimelineBuilder(origin=origin)
    b.work(0, 20, launch_us=-9)
    for number, memory in enumerate(memories):
        begin = 20 + 20 * number
        name = f"Memcpy HtoD ({memory} -> Device)"
        b.work(begin, begin + 20, kind="memcpy", name=name, stream="copy H2D", launch_us=-8)
    return b


@pytest.mark.parametrize("origin", ["measured", "predicted"])
def test_no_copy_is_promised_twice(origin: str) -> None:
    """Each of the two findings promises its own copies, and together no more than all take."""
    both = _uploading(["Pageable", "Pinned"], origin)
    slow, rest = find(both, "pageable_copies"), find(both, "transfer_bound")
    assert slow is not None
    assert rest is not None
    assert (slow.max_gain_s, rest.max_gain_s) == pytest.approx((20e-6, 20e-6))
    assert slow.about is not None
    assert rest.about is not None
    assert not set(slow.about.events) & set(rest.about.events)
    assert find(_uploading(["Pageable", "Pageable"], origin), "transfer_bound") is None
