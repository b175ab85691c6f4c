"""The device that waits for its input."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, streaming


def loading(wait_us: float) -> TimelineBuilder:
    b = TimelineBuilder(origin="measured")
    b.work(0, 60, launch_us=-9)
    b.host(10, 60 + wait_us, name="enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    b.work(60 + wait_us, 100, launch_us=57 + wait_us)
    b.step(0, 100)
    return b


def test_waiting_for_the_loader_is_input_bound() -> None:
    found = find(loading(30), "input_bound", device=None)
    assert found is not None
    assert found.max_gain_s == pytest.approx(30e-6)
    assert "30 %" in found.title
    assert "_SingleProcessDataLoaderIter.__next__ (100 %)" in found.evidence
    assert find(loading(30), "host_bound", device=None) is None


def test_a_loader_that_keeps_up_is_not() -> None:
    assert find(loading(2), "input_bound", device=None) is None


def test_a_device_that_never_waits_is_not_input_bound() -> None:
    b = TimelineBuilder()
    b.chain([streaming(50), streaming(50)])
    assert find(b, "input_bound") is None
