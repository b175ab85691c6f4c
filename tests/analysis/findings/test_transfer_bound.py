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
    )  # fmt: skip
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
