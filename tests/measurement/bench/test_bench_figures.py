"""The figures of a card: only what was measured."""

from __future__ import annotations

import pytest
from bench_builders import point, result

from gpuscope.measurement.bench.figures import figures


def found(made):
    return {
        (f.key, *(str(v) for k, v in f.detail.items() if k in ("dtype", "op", "load", "name"))): f
        for f in figures(made)
    }


def test_ceilings_by_hand() -> None:
    shown = found(result())
    best = shown["matmul", "bf16"]
    assert best.value == pytest.approx(791.6e12)
    assert best.fraction == pytest.approx(0.8)
    assert best.detail["m"] == 8192
    assert shown["memory", "ws_read"].fraction == pytest.approx(0.92)
    assert shown["cache", "ws_copy"].value == pytest.approx(6.2e12)
    assert shown["cache", "ws_copy"].fraction is None
    assert shown["link", "h2d_pageable"].value == pytest.approx(10e9)
    assert shown["dispatch", "add"].value == 4.1e-6
    assert shown["power", "idle_with_context"].value == 115.0
    assert shown["sustained", "bf16"].value == pytest.approx(671e12)
    assert shown["clock", "matmul_bf16"].value == 1.49e9


def test_what_was_not_measured_is_not_there() -> None:
    assert figures(result(points=())) == ()
    assert {f.key for f in figures(result(points=result().of("host")))} == {"dispatch"}


def test_small_copies_and_sets_say_nothing_of_rates() -> None:
    small = (
        point("transfers", "transfer", {"op": "h2d_pinned", "bytes": 1024}, 1e-6, bytes=1024.0),
        point("memory", "working_set", {"op": "ws_copy", "mib": 64}, 1e-5, bytes=64.0 * 2**20),
    )
    assert figures(result(points=small)) == ()


def test_products_beside_a_copy_are_held_against_those_alone() -> None:
    def beside(copy: str, timed: str, seconds: float):
        return point(
            "transfers", "transfer_beside_compute", {"copy": copy, "timed": timed}, seconds
        )

    points = (
        beside("h2d_pinned", "copies", 5e-3),
        beside("h2d_pinned", "kernels", 6.6e-3),
        beside("none", "kernels", 6e-3),
    )
    (figure,) = figures(result(points=points))
    assert (figure.key, figure.unit) == ("beside_copy", "x")
    assert figure.value == pytest.approx(1.1)
    assert figures(result(points=points[:2])) == ()


def test_the_best_bus_bandwidth_of_each_collective() -> None:
    def collective(size: int, rate: float):
        params = {"ranks": 4, "bytes": size}
        return point(
            "collectives", "all_reduce", params, 1e-3, "queued", values={"bus_bytes_per_s": rate}
        )

    (figure,) = figures(result(points=(collective(1, 1e9), collective(2, 3e11))))
    assert figure.value == 3e11
    assert figure.detail == {"operation": "all_reduce", "ranks": 4, "bytes": 2}
