"""Float32 products launch the kernels that an H200 was recorded to launch."""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matmul_work import dense, run, turned

from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

RECORDINGS = Path(__file__).resolve().parents[3] / "validation/recordings/h200"
LAYOUTS = {"nn": "nn", "tn": "nt", "nt": "tn"}
"""As kernels' names say it, column by column, and row by row."""


def _spec(rows: int, columns: int, layout: str = "n", dtype: str = "float32") -> TensorSpec:
    plain = dense(rows, columns, dtype=dtype)
    return plain if layout == "n" else turned(dense(columns, rows, dtype=dtype))


def _kernels(
    m: int, n: int, k: int, way: str = "bias", on: str = "h200", dtype: str = "float32"
) -> list[Kernel]:
    left, right = ("n", "t") if way == "bias" else (way[0], way[1])
    matrices = _spec(m, k, left, dtype), _spec(k, n, right, dtype)
    row = (dense(n, dtype=dtype),) if way == "bias" else ()
    name = "aten::addmm" if row else "aten::mm"
    made = run(name, (*row, *matrices), (_spec(m, n, dtype=dtype),), on)
    return [kernel for kernel in made if kernel.kind != "memset"]


def _rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(RECORDINGS / name, "rt") as lines:
        yield from map(json.loads, lines)


def test_the_old_kernel_is_taken_where_the_grid_has_it_and_nowhere_else() -> None:
    seen = 0
    for row in _rows("micro/small.jsonl.gz"):
        given = row["params"]
        if (given.get("way"), given["dtype"], row["state"]) != ("bias", "fp32", "cold"):
            continue
        sizes = given["m"], given["n"], given["k"]
        names = [kernel["name"] for kernel in row["kernels"]]
        old, kernels = any("largek" in name for name in names), _kernels(*sizes)
        assert ("sgemm_largek" in [kernel.name for kernel in kernels]) == old, sizes
        if old:
            seen += 1
            assert len(kernels) == sum(not name.startswith("Memset") for name in names) == 3
            assert sum(k.duration_s for k in kernels) * 1e6 == pytest.approx(row["sum_us"], rel=0.2)
            assert sum(kernel.flops for kernel in kernels) == 2 * sizes[0] * sizes[1] * sizes[2]
    assert seen == 10


def _launched() -> Iterator[tuple[str, tuple[int, int, int], float, int]]:
    """Float32 products of recorded programs: way, sizes, kernels of one, how often."""
    for row in _rows("corpus.jsonl.gz"):
        for each in row["by_operator"]:
            name, kernels = each["op"].rpartition(">")[2], " ".join(each["kernels"])
            if name not in ("aten::mm", "aten::addmm") or "bf" in kernels:
                continue
            shapes = ast.literal_eval(each["shapes"])
            first = len(shapes[0]) != 1 or name == "aten::mm"
            (m, k), (_, n) = shapes[:2] if first else shapes[1:3]
            found = re.search(r"_(nn|nt|tn)_(?:n_|align)", kernels)
            bias = not first and "linear" in each["op"]
            way = "bias" if bias else LAYOUTS[found[1]] if found and name == "aten::mm" else ""
            if way and min(m, n) > 1:
                kinds = each["kernels"].items()
                count = sum(n for kernel, n in kinds if not kernel.startswith("Mem"))
                yield way, (m, n, k), count / each["calls"], each["calls"]


def test_products_of_programs_launch_as_many_kernels_as_recorded() -> None:
    right, calls = Counter[str](), Counter[str]()
    for way, sizes, count, times in _launched():
        calls[way] += times
        right[way] += times * (len(_kernels(*sizes, way)) == count)
    assert calls == {"bias": 544, "nn": 481, "nt": 149, "tn": 456}
    assert {way: round(right[way] / calls[way], 2) for way in calls} == {
        "bias": 0.99,
        "nn": 0.84,
        "nt": 0.95,
        "tn": 0.97,
    }


def test_a_way_shares_the_planned_time_among_its_kernels() -> None:
    whole, sliced = _kernels(1024, 2048, 512, "nn"), _kernels(1024, 512, 512, "nn")
    assert [kernel.name for kernel in sliced][1:] == ["split_k_reduce"]
    assert len(whole) == 1
    assert sliced[1].flops == 0
    assert sliced[0].duration_s > sliced[1].duration_s > 0
    assert sliced[0].low_s < sliced[0].duration_s < sliced[0].high_s


def test_other_types_and_other_vendors_are_left_alone() -> None:
    assert len(_kernels(136, 512, 512)) == 3
    assert len(_kernels(136, 512, 512, dtype="bfloat16")) < 3
    assert "sgemm_largek" not in [k.name for k in _kernels(136, 512, 512, on="mi300x")]
    assert "sgemm_largek" not in [k.name for k in _kernels(8, 512, 512)]
