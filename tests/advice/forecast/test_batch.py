"""The largest safe batch and the best one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_changes import build

from gpuscope.advice.forecast.batch import (
    MARGIN,
    BatchPoint,
    _best,
    _Points,
    advise_batch,
    batch_section,
)
from gpuscope.errors import InvalidValueError


def _line(fixed, per_sample, room):
    def point(batch):
        held = int(fixed + per_sample * batch)
        return BatchPoint(batch, 1.0, 1.0, 1.0, held, held, held <= room)

    return point


@settings(deadline=None)
@given(st.integers(0, 10**9), st.integers(10**3, 10**7), st.integers(1, 256))
def test_the_largest_is_found_with_few_captures(fixed, per_sample, now):
    room = 10**10
    points = _Points(_line(fixed, per_sample, room), room)
    found = points.largest(now)
    most = (room - fixed) // per_sample
    if found is None:
        assert most < 1
        return
    assert found.safe
    assert found.batch <= most
    assert found.batch >= min(2**20, most) * 0.85 - 8
    assert len(points.known) <= 12


def test_nothing_fits():
    points = _Points(_line(2 * 10**10, 1000, 10**10), 10**10)
    assert points.largest(64) is None


def test_the_best_is_the_smallest_of_the_fastest():
    def at(batch, rate, safe=True):
        return BatchPoint(batch, batch / rate, 0, 0, 1, 1, safe)

    points = [at(8, 50), at(16, 99), at(32, 100), at(64, 100.5), at(128, 200, safe=False)]
    assert _best(points).batch == 16
    assert _best([at(8, 1, safe=False)]) is None


def test_a_build_with_a_batch():
    found = advise_batch(build, "h200")
    assert found.now == 4096
    assert found.largest.reserved_memory_bytes <= found.capacity_bytes * (1 - MARGIN)
    assert found.best.rate * 1.02 >= max(p.rate for p in found.points if p.safe)
    section = batch_section(found)
    assert "Largest that fits safely" in section.blocks[0].text
    assert len(section.blocks[1].rows) == len(found.points)


def test_a_workload_without_a_batch():
    with pytest.raises(InvalidValueError, match="no batch"):
        advise_batch(lambda: build())
