"""Copies by direction and memory, by hand."""

from __future__ import annotations

import pytest
from builders import H200, TimelineBuilder, kernel, with_sizes

from gpuscope.analysis.copies import copies

LINK = H200.host_link_bandwidth_bytes_per_s or 0.0


def test_pageable_and_pinned_uploads_are_told_apart_with_their_rates() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10)
    b.work(5, 25, kind="memcpy", name="Memcpy HtoD (Pageable -> Device)", stream="stream 9")
    b.work(30, 40, kind="memcpy", name="Memcpy HtoD (Pinned -> Device)", stream="stream 9")
    timeline = with_sizes(
        b.build(),
        {"Memcpy HtoD (Pageable -> Device)": 200_000, "Memcpy HtoD (Pinned -> Device)": 500_000},
    )
    pageable, pinned = copies(timeline, 0, device=H200)
    assert (pageable.direction, pageable.memory) == ("host to device", "pageable")
    assert pageable.time_s == pytest.approx(20e-6)
    assert pageable.exposed_s == pytest.approx(15e-6)
    assert pageable.total_bytes == pageable.median_bytes == pageable.largest_bytes == 200_000
    assert pageable.rate_bytes_per_s == pytest.approx(10e9)
    assert pageable.link_share == pytest.approx(10e9 / LINK)
    assert pageable.longest_ns == 5_000
    assert (pinned.memory, pinned.count) == ("pinned", 1)
    assert pinned.rate_bytes_per_s == pytest.approx(50e9)


@pytest.mark.parametrize(
    ("name", "direction", "memory"),
    [
        ("Memcpy DtoH (Device -> Pageable)", "device to host", "pageable"),
        ("Memcpy DtoH (Device -> Pinned)", "device to host", "pinned"),
        ("Memcpy DtoH (Device -> Host)", "device to host", ""),
        ("Memcpy DtoD (Device -> Device)", "within the device", ""),
        ("Memcpy PtoP (Device -> Device)", "between devices", ""),
        ("CopyHostToDevice", "host to device", ""),
        ("zeMemoryCopy(M2D)", "host to device", ""),
        ("something else", "unknown direction", ""),
    ],
)
def test_names_of_recorders(name: str, direction: str, memory: str) -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, kind="memcpy", name=name)
    (found,) = copies(b.build(), 0)
    assert (found.direction, found.memory) == (direction, memory)


def test_a_size_that_is_not_recorded_is_not_zero() -> None:
    b = TimelineBuilder(origin="measured")
    b.work(0, 10, kind="memcpy", name="Memcpy HtoD (Pageable -> Device)")
    (found,) = copies(b.build(), 0, device=H200)
    assert found.total_bytes is found.rate_bytes_per_s is found.link_share is None


def test_a_predicted_copy_has_its_modelled_size() -> None:
    b = TimelineBuilder()
    cost = kernel(10, name="copy", kind="transfer", least_bytes=4e5)
    b.work(0, 10, kind="memcpy", stream="copy H2D", cost=cost)
    (found,) = copies(b.build(), 0, device=H200)
    assert found.direction == "host to device"
    assert found.total_bytes == 400_000
    assert found.rate_bytes_per_s == pytest.approx(40e9)


def test_a_device_without_copies_has_none() -> None:
    b = TimelineBuilder()
    b.work(0, 10)
    assert copies(b.build(), 0) == ()
    assert copies(TimelineBuilder().build(), 0) == ()
