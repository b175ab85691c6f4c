"""What scales of blocks cost products on Hopper, beside the table that their kernels publish."""

import statistics

import pytest

from gpuscope.hardware import parse_target
from gpuscope.program.models.registry import find
from gpuscope.program.types import Op
from gpuscope.serving.operators import dense
from gpuscope.serving.prices import Priced
from gpuscope.serving.quantization import quantization

DEEPGEMM = [
    (4096, 2112, 7168, 1058),
    (4096, 24576, 1536, 990),
    (4096, 32768, 512, 590),
    (4096, 7168, 16384, 1358),
    (4096, 4096, 7168, 1304),
    (4096, 7168, 2048, 1025),
]
"""Rows, columns, depth, TFLOP/s: github.com/deepseek-ai/DeepGEMM, README of February 2025, H800."""


def _priced(on: str, dtype: str) -> Priced:
    cluster = parse_target(on)
    size = find("llama-3.1-8b").size
    assert size is not None
    kept = quantization(dtype, cluster.device)
    return Priced(size(), kept, cluster, 1, 1, 2.0, None)


def _product_s(priced: Priced, rows: int, wide: int, depth: int) -> float:
    low = "float8_e4m3fn"
    a, b = dense(rows, depth, dtype=low), dense(wide, depth, dtype=low, storage=1)
    weight = type(b)((depth, wide), (1, depth), low, storage=1)
    op = Op(0, "aten::_scaled_mm", inputs=(a, weight), outputs=(dense(rows, wide),))
    return sum(kernel.duration_s for kernel in priced._kernels((op,))[0])


def test_the_published_table_is_met() -> None:
    blocks = _priced("h100", "fp8_block")
    off = [
        _product_s(blocks, rows, wide, depth) / (2 * rows * wide * depth / rate / 1e12) - 1
        for rows, wide, depth, rate in DEEPGEMM
    ]
    assert abs(statistics.median(off)) < 0.06
    assert max(map(abs, off)) < 0.2


@pytest.mark.parametrize("shape", [(4096, 4096, 7168), (64, 4096, 7168), (1, 7168, 2048)])
def test_blocks_cost_where_arithmetic_sets_the_pace(shape: tuple[int, int, int]) -> None:
    blocks, whole = (_product_s(_priced("h100", kind), *shape) for kind in ("fp8_block", "fp8"))
    if shape[0] == 4096:
        assert 1.1 < blocks / whole < 1.22
    else:
        assert blocks == pytest.approx(whole)


def test_blackwell_scales_inside_of_its_matrix_unit() -> None:
    blocks, whole = (
        _product_s(_priced("b200", kind), 4096, 4096, 7168) for kind in ("fp8_block", "fp8")
    )
    assert blocks == pytest.approx(whole)
