"""The benches' calls, their FLOPs and bytes, held against kernels recorded on a real H200.

The recordings were made of the same calls with the same params, so they are what the bench would
find there: thousands of real points for the limits, the figures and the folder.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "fit"))
points_of = pytest.importorskip("recorded_points")

from gpuscope.hardware import device  # noqa: E402
from gpuscope.measurement.bench import (  # noqa: E402
    attention,
    convolution,
    gather,
    matmul,
    optimizers,
    pointwise,
    recurrent,
    reduction,
    transfers,
    working_set,
)
from gpuscope.measurement.bench.figures import figures  # noqa: E402
from gpuscope.measurement.bench.harness import KernelTimer  # noqa: E402
from gpuscope.measurement.bench.store import load_bench, save_bench  # noqa: E402
from gpuscope.measurement.bench.types import BenchResult, params_key  # noqa: E402

BENCHES = (
    matmul,
    attention,
    convolution,
    gather,
    optimizers,
    pointwise,
    reduction,
    recurrent,
    transfers,
    working_set,
)
MACHINE = {"device": "NVIDIA H200", "l2_bytes": str(60 * 2**20)}


@pytest.fixture(scope="module")
def recorded() -> BenchResult:
    """The recorded calls that the benches make too, with their work and limits."""
    h200 = device("h200")
    timer = KernelTimer(accelerator=None, device=h200)  # type: ignore[arg-type]
    cases = {(c.family, params_key(c.params)): c for m in BENCHES for c in m.cases(False)}
    found = []
    for point in points_of.kernel_points():
        case = cases.get((point.family, params_key(point.params)))
        if case is not None:
            limit, bound_s = timer._bound(case, hot=point.state == "hot")
            bench = "memory" if point.family == "working_set" else point.bench
            found.append(
                replace(
                    point,
                    bench=bench,
                    flops=case.flops,
                    bytes=case.bytes,
                    bound=limit,
                    bound_s=bound_s,
                )
            )
    return BenchResult(MACHINE, h200.id, tuple(found))


def test_most_recorded_calls_are_calls_of_a_bench(recorded) -> None:
    assert len(recorded.points) > 8000
    assert {p.bench for p in recorded.points} == {
        "matmul",
        "attention",
        "convolution",
        "gather",
        "optimizers",
        "pointwise",
        "reduction",
        "recurrent",
        "transfers",
        "memory",
    }


def test_no_real_kernel_is_faster_than_the_limit_that_is_stated(recorded) -> None:
    limited = [p for p in recorded.points if p.fraction is not None]
    assert len(limited) > 4000
    assert [(p.key, p.fraction) for p in limited if p.fraction > 1.0] == []


def test_the_best_of_each_kind_come_close_to_it(recorded) -> None:
    best: dict[str, float] = {}
    for point in recorded.points:
        if point.fraction is not None:
            best[point.bench] = max(best.get(point.bench, 0.0), point.fraction)
    for bench, least in {
        "matmul": 0.8,
        "attention": 0.7,
        "convolution": 0.8,
        "memory": 0.9,
        "pointwise": 0.85,
        "reduction": 0.8,
        "gather": 0.6,
        "optimizers": 0.75,
        "transfers": 0.8,
    }.items():
        assert best[bench] > least, bench


def test_the_figures_are_those_that_were_published_of_the_recordings(recorded) -> None:
    """As `benchmarks/micro/README.md` has them."""
    found = {(f.key, f.detail.get("dtype"), f.detail.get("op")): f for f in figures(recorded)}
    for key, expected in {
        ("matmul", "bf16", None): 844e12,
        ("matmul", "tf32", None): 426e12,
        ("matmul", "fp32", None): 53.3e12,
        ("memory", None, "ws_copy"): 4.28e12,
        ("memory", None, "ws_read"): 4.40e12,
        ("memory", None, "ws_write"): 4.70e12,
        ("cache", None, "ws_copy"): 6.2e12,
        ("link", None, "h2d_pinned"): 55.5e9,
    }.items():
        assert found[key].value == pytest.approx(expected, rel=0.01), key


def test_thousands_of_points_survive_the_folder(recorded, tmp_path) -> None:
    save_bench(recorded, tmp_path)
    assert load_bench(tmp_path) == recorded
