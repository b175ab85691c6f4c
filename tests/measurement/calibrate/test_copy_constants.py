"""Pageable copies of a host, from its bench."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from gpuscope.cost.copy.transfer import link_rate
from gpuscope.hardware import calibration_for, device
from gpuscope.measurement.bench.store import load_bench
from gpuscope.measurement.bench.types import Point
from gpuscope.measurement.calibrate import calibrate
from gpuscope.measurement.calibrate.copy_constants import copy_constants
from gpuscope.measurement.calibrate.host_constants import host_constants

MIB = 2**20
H200 = device("h200")
RECORDED = Path(__file__).parents[3] / "validation" / "recordings" / "h200"
HOSTS = ("bench", "newest_host", "distributed_host", "quick_host")


def copied(size: int, rate: float, way: str = "h2d", beyond: float | None = None) -> Point:
    """A copy at `rate` bytes/s up to 64 MiB and at `beyond` from there."""
    rest = max(0, size - 64 * MIB)
    seconds = (size - rest) / rate + rest / (beyond or rate)
    params = {"op": f"{way}_pageable", "bytes": size}
    return Point("transfers", "transfer", params, "hot", seconds)


def test_two_sizes_say_both_rates() -> None:
    points = [copied(16 * MIB, 20e9), copied(256 * MIB, 20e9, beyond=8e9)]
    found = copy_constants(points, H200)
    link = link_rate(H200)
    assert found["transfer.h2d_pageable.efficiency"].value == pytest.approx(20e9 / link)
    assert found["transfer.h2d_pageable.beyond.efficiency"].value == pytest.approx(8e9 / link)
    assert {entry.origin for entry in found.values()} == {"measured"}


def test_small_copies_and_other_points_say_nothing() -> None:
    call = Point("host", "op", {"name": "mm", "variant": "no_grad"}, "host", 5e-6)
    assert copy_constants([copied(65536, 12e9), copied(256 * MIB, 8e9), call], H200) == {}


def test_points_that_disagree_make_a_wider_interval() -> None:
    sizes = (4 * MIB, 16 * MIB, 64 * MIB)
    alike = copy_constants([copied(s, 20e9) for s in sizes], H200)
    apart = copy_constants(
        [copied(s, r) for s, r in zip(sizes, (30e9, 20e9, 10e9), strict=True)], H200
    )
    name = "transfer.h2d_pageable.scale"
    assert alike[name].spread == pytest.approx(0.1)
    assert apart[name].spread > 0.3


def test_a_recorded_quick_bench_says_what_its_host_copies_at() -> None:
    points = load_bench(RECORDED / "quick_host").points
    own = calibrate([p for p in points if p.bench == "transfers"], H200)
    rate = link_rate(H200) * own.value("transfer.h2d_pageable.beyond.efficiency")
    assert 8e9 < rate < 9.6e9
    assert own.value("matmul.bf16.efficiency") == calibration_for(H200).value(
        "matmul.bf16.efficiency"
    )


def test_the_catalogues_interval_of_a_host_holds_the_hosts_that_were_benched() -> None:
    base = calibration_for(H200)
    scale = base.entry("host.scale")
    for name in HOSTS:
        found = host_constants(load_bench(RECORDED / name).points, base)
        ratio = median(
            entry.value / base.value(key)
            for key, entry in found.items()
            if key.startswith("host.op.")
            and entry.origin == "measured"
            and key in base
            and base.value(key) > 0
        )
        assert scale.low <= ratio <= scale.high, name


def test_a_benched_host_is_surer_than_the_catalogues() -> None:
    base = calibration_for(H200)
    points = load_bench(RECORDED / "quick_host").points
    # Not whole programs: they tell other constants, and each is captured for it.
    own = calibrate([point for point in points if point.family != "program"], H200)
    for name in ("host.scale", "transfer.h2d_pageable.scale"):
        assert own.spread(name) < base.spread(name)
