"""Copies through pageable memory."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, with_sizes

from gpuscope.analysis import analyze

PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
PINNED = "Memcpy HtoD (Pinned -> Device)"


def uploading(name: str = PAGEABLE, hidden: bool = False) -> TimelineBuilder:
    b = TimelineBuilder(origin="measured")
    b.work(0, 500, launch_us=-5)
    b.copy(700, 800, call_us=(510, 802), name=name)
    b.work(810, 1000, launch_us=806)
    if hidden:
        b.work(500, 810, stream="stream 9", launch_us=-4)
    return b


def test_copy_and_staging_are_the_gain() -> None:
    found = find(uploading(), "pageable_copies")
    assert found is not None
    # 100 us of copying, and 190 us in which the call stages before it.
    assert found.max_gain_s == pytest.approx(290e-6)
    assert "29 %" in found.title
    assert "100 µs" in found.evidence


def test_rates_are_told_where_sizes_are_recorded() -> None:
    timeline = with_sizes(uploading().build(), {PAGEABLE: 4 << 20})
    (found,) = (f for f in analyze(timeline).findings if f.kind == "pageable_copies")
    assert "4.00 MiB at 41.9 GB/s" in found.evidence


def test_scalars_do_not_matter() -> None:
    timeline = with_sizes(uploading().build(), {PAGEABLE: 4})
    assert all(f.kind != "pageable_copies" for f in analyze(timeline).findings)


def test_pinned_copies_are_fine() -> None:
    assert find(uploading(PINNED), "pageable_copies") is None


def test_hidden_copies_cost_nothing() -> None:
    assert find(uploading(hidden=True), "pageable_copies") is None
