"""Memory at the peak, and whether it fits."""

from __future__ import annotations

import numpy as np
import pytest
from builders import H200, TimelineBuilder

from gpuscope.analysis import analyze
from gpuscope.program.types import Op, Program, Storage
from gpuscope.timeline.memory import simulate_memory
from gpuscope.timeline.types import Counter

MIB = 1 << 20


def program() -> Program:
    """100 MiB of weights; 64 MiB live from op 1 to 3, 32 MiB from 2 to the end of op 2."""
    storages = (
        Storage(0, 100 * MIB, "parameter", -1, None, "fc", "weight"),
        Storage(1, 64 * MIB, "activation", 1, 4, "fc", "aten::mm output"),
        Storage(2, 32 * MIB, "temporary", 2, 3, "act", "aten::gelu output"),
    )
    return Program("toy", tuple(Op(index=i, name="aten::mm") for i in range(4)), storages)


def timeline() -> TimelineBuilder:
    b = TimelineBuilder()
    for i in range(4):
        op = b.op("aten::mm")
        b.host(10 * i, 10 * i + 8, op=op)
        b.work(10 * i + 5, 10 * i + 9, op=op)
    return b


def test_story_of_a_simulated_step() -> None:
    story = analyze(timeline().build(), memory=simulate_memory(program()), on=H200).memory
    assert story is not None
    assert story.peak_bytes == 196 * MIB
    assert story.at_peak == {"parameter": 100 * MIB, "activation": 64 * MIB, "temporary": 32 * MIB}
    assert sum(story.at_peak.values()) == story.peak_bytes
    assert story.peak_time_s == pytest.approx(20e-6)
    assert story.holders[0] == ("fc weight", 100 * MIB)
    assert story.capacity_bytes == H200.memory_usable_bytes
    assert story.fits is True
    assert story.missing_bytes == 0
    assert max(story.allocated_bytes) == story.peak_bytes
    assert max(story.reserved_curve_bytes) == story.reserved_bytes
    assert len(story.time_s) == len(story.allocated_bytes) == len(story.reserved_curve_bytes)


def test_a_step_that_does_not_fit_says_by_how_much() -> None:
    trace = simulate_memory(program(), capacity_bytes=150 * MIB)
    story = analyze(timeline().build(), memory=trace, on=H200).memory
    assert story is not None
    assert story.fits is False
    assert story.capacity_bytes == 150 * MIB
    assert story.missing_bytes >= 46 * MIB


def test_recorded_counters_give_a_curve_without_categories() -> None:
    b = timeline()
    times = np.array([1_000, 11_000, 31_000])
    b.counters.append(Counter("allocated", "bytes", times, np.array([10.0, 50.0, 20.0])))
    b.counters.append(Counter("reserved", "bytes", times[:2], np.array([64.0, 128.0])))
    story = analyze(b.build()).memory
    assert story is not None
    assert (story.peak_bytes, story.reserved_bytes) == (50, 128)
    assert story.peak_time_s == pytest.approx(10e-6)
    assert story.reserved_curve_bytes == (64, 128, 128)
    assert story.at_peak == {}
    assert story.fits is None


def test_no_memory_data_no_story() -> None:
    assert analyze(timeline().build(), on=H200).memory is None
