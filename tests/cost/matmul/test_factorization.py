"""Factorisations beside what an H200 took for them, and how their time grows."""

from __future__ import annotations

import gzip
import json
import re
import statistics
from collections.abc import Iterator
from math import log
from pathlib import Path

import pytest
from memory_work import dense, run, seconds

from gpuscope.cost.types import Kernel

RECORDING = Path(__file__).parents[3] / "validation/recordings/h200/functions.jsonl.gz"
OPERATORS = {
    "cholesky": "linalg_cholesky_ex",
    "lu_factor": "linalg_lu_factor_ex",
    "inv": "linalg_inv_ex",
    "solve": "_linalg_solve_ex",
    "det": "_linalg_det",
    "qr": "linalg_qr",
    "svd": "_linalg_svd",
    "eigh": "_linalg_eigh",
    "eig": "linalg_eig",
    "lstsq": "linalg_lstsq",
}
CALL = re.compile(r"^a = t\(([\d, ]+)\)(\.double\(\))?.*;; torch\.linalg\.(\w+)\(a")


def recorded() -> Iterator[tuple[str, tuple[int, ...], str, float]]:
    """Operator, shape, type, seconds of the device's work."""
    for line in gzip.decompress(RECORDING.read_bytes()).splitlines():
        row = json.loads(line)
        call = CALL.match(row["name"])
        if call and call[3] in OPERATORS:
            shape = tuple(map(int, call[1].split(",")))
            of_it = [k for k in row["kernels"] if "linalg" in k[0]]
            took = sum(us for kernel in of_it for us in kernel[3])
            yield OPERATORS[call[3]], shape, "float64" if call[2] else "float32", took * 1e-6


def kernels(name: str, *shape: int, dtype: str = "float32") -> tuple[Kernel, ...]:
    matrix = dense(*shape, dtype=dtype, at=0)
    return run(name, (matrix,), (dense(*shape, dtype=dtype, at=1),), hot=True)


def test_recorded_factorizations() -> None:
    calls = list(recorded())
    assert len(calls) > 70
    off = [abs(log(seconds(kernels(n, *s, dtype=d)) / took)) for n, s, d, took in calls]
    assert statistics.median(off) < 0.12
    assert sum(each < log(1.3) for each in off) / len(off) > 0.85


@pytest.mark.parametrize("name", ["linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_qr"])
def test_columns_wait_for_each_other(name: str) -> None:
    """Twice the columns take about twice as long, where the arithmetic is eight times as much."""
    ratio = seconds(kernels(name, 1024, 1024)) / seconds(kernels(name, 512, 512))
    assert 1.8 < ratio < 2.8


def test_small_stacks_are_done_at_once_and_large_ones_one_by_one() -> None:
    for name in ("_linalg_svd", "linalg_lu_factor_ex"):
        few, many = kernels(name, 2, 16, 16), kernels(name, 64, 16, 16)
        assert seconds(many) == pytest.approx(seconds(few), rel=0.01)
    for name in ("_linalg_svd", "_linalg_eigh"):
        eight, alone = kernels(name, 8, 128, 128), kernels(name, 128, 128)
        assert seconds(eight) == pytest.approx(8 * seconds(alone), rel=0.02)
        assert len(eight) == 8 * len(alone)


def test_triangles_and_exponentials() -> None:
    sides, triangle = dense(512, 8, at=0), dense(512, 512, at=1)
    solved = run("cholesky_solve", (sides, triangle), (sides,))
    assert seconds(solved) == pytest.approx(2.3e-4, rel=0.3)
    assert sum(k.flops > 0 for k in kernels("linalg_matrix_exp", 256, 256)) == 10
    assert not run("linalg_cholesky_ex", (dense(0, 0),), (dense(0, 0),))
