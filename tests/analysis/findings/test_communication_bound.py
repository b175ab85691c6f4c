"""Communication that nothing hides."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, kernel, streaming


def reducing(start_us: float) -> TimelineBuilder:
    b = TimelineBuilder()
    op = b.op("c10d::allreduce_")
    cost = kernel(40, name="all_reduce", kind="collective", lane="link", limiter="link")
    b.work(0, 60, cost=streaming(60), launch_us=-9)
    b.work(
        start_us, start_us + 40, kind="communication", stream="link", cost=cost, op=op,
        launch_us=-8,
    )  # fmt: skip
    b.step(0, 100)
    return b


def test_exposed_communication_is_found() -> None:
    found = find(reducing(60), "communication_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(40e-6)
    assert "40 %" in found.title


def test_the_evidence_tells_hidden_from_exposed() -> None:
    found = find(reducing(40), "communication_bound")
    assert found is not None
    assert found.max_gain_s == pytest.approx(20e-6)
    assert "run for 40.0 µs, of which 20.0 µs are not hidden" in found.evidence


def test_hidden_communication_is_fine() -> None:
    assert find(reducing(15), "communication_bound") is None
