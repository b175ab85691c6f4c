"""A few tiles of float32 with a bias: the kernels that an H200 was recorded to launch."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from matmul_work import dense, run, turned

from gpuscope.cost.types import Kernel

RECORDING = Path(__file__).resolve().parents[2] / "validation/recordings/h200/micro/small.jsonl.gz"


def _kernels(m: int, n: int, k: int, on: str = "h200", dtype: str = "float32") -> list[Kernel]:
    def spec(*shape: int):
        return dense(*shape, dtype=dtype)

    inputs = (spec(n), spec(m, k), turned(spec(n, k)))
    return [k for k in run("aten::addmm", inputs, (spec(m, n),), on) if k.kind != "memset"]


def _recorded() -> Iterator[tuple[tuple[int, int, int], list[str], float]]:
    with gzip.open(RECORDING, "rt") as lines:
        for row in map(json.loads, lines):
            given = row["params"]
            if (given.get("way"), given["dtype"], row["state"]) == ("bias", "fp32", "cold"):
                names = [kernel["name"] for kernel in row["kernels"]]
                yield (given["m"], given["n"], given["k"]), names, row["sum_us"]


def test_it_is_taken_where_it_was_recorded_and_nowhere_else() -> None:
    seen = 0
    for sizes, names, sum_us in _recorded():
        old = any("largek" in name for name in names)
        kernels = _kernels(*sizes)
        assert ("sgemm_largek" in [kernel.name for kernel in kernels]) == old, sizes
        if old:
            seen += 1
            assert len(kernels) == sum(not name.startswith("Memset") for name in names) == 3
            assert sum(k.duration_s for k in kernels) * 1e6 == pytest.approx(sum_us, rel=0.15)
            assert sum(kernel.flops for kernel in kernels) == 2 * sizes[0] * sizes[1] * sizes[2]
    assert seen == 10


def test_other_types_and_other_vendors_have_no_such_kernel() -> None:
    assert len(_kernels(136, 512, 512)) == 3
    assert len(_kernels(136, 512, 512, dtype="bfloat16")) < 3
    assert "sgemm_largek" not in [k.name for k in _kernels(136, 512, 512, on="mi300x")]
    assert "sgemm_largek" not in [k.name for k in _kernels(8, 512, 512)]
