"""The bench on a real GPU: true kernel times within the physical limits."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from gpuscope.measurement.bench.run import Options, run_bench

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


def test_ceilings_stay_below_the_physical_limit(tmp_path) -> None:
    result = run_bench(Options(only=("memory", "matmul", "transfers"), quick=True), tmp_path / "b")
    assert not result.interrupted
    assert {r.name for r in result.runs} == {"memory", "matmul", "transfers"}
    assert len(result.of("matmul", "mm")) > 20
    shares = [p.fraction for p in result.points if p.fraction is not None]
    assert not shares or 0.3 < max(shares) <= 1.02


def test_an_interrupted_run_goes_on(tmp_path) -> None:
    def stop(progress) -> None:
        if progress.points >= 5:
            raise KeyboardInterrupt

    options = Options(only=("memory",), quick=True)
    first = run_bench(options, tmp_path / "b", progress=stop)
    assert first.interrupted
    assert first.points
    rest = run_bench(Options(only=("memory",), quick=True, resume=True), tmp_path / "b")
    assert not rest.interrupted
    assert len(rest.points) > len(first.points)
    assert rest.points[: len(first.points)] == first.points
