"""Culprits in words."""

from __future__ import annotations

from builders import TimelineBuilder, find

from gpuscope.analysis.findings.culprits import garbage_s, memory_calls_s, place
from gpuscope.analysis.idle_spots import IdleSpot


def spot(what: str, within: str = "", where: str = "", time_s: float = 1.0) -> IdleSpot:
    return IdleSpot("host dispatching", what, within, where, time_s, 1, 0, time_s)


def test_a_place_names_what_is_known() -> None:
    assert place(spot("cudaMalloc")) == "cudaMalloc"
    assert place(spot("cudaMalloc", "aten::mm", "train.py(3): f")) == (
        "cudaMalloc in aten::mm, train.py(3): f"
    )


def test_calls_are_told_by_their_names() -> None:
    spots = [
        spot("cudaMalloc", time_s=1),
        spot("hipFree", time_s=2),
        spot("cuMemCreate", time_s=4),
        spot("cudaMemcpyAsync", time_s=8),
        spot("Python GC", time_s=16),
        spot("<built-in function collect>", time_s=32),
        spot("aten::gcd", time_s=64),
    ]
    assert memory_calls_s(spots) == 7
    assert garbage_s(spots) == 48


def test_small_and_unknown_places_are_not_named() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(15):
        b.work(40 * i, 40 * i + 4, launch_us=40 * i - 4)
        b.host(40 * i + 4, 40 * i + 35, name=f"aten::op_{i}")
    found = find(b, "host_bound")
    assert found is not None
    assert "Largest" not in found.evidence
