"""Which kernels multiply matrices on which device, and whose constants they have."""

from __future__ import annotations

import pytest

from gpuscope.cost.matmul.choice import gemm_kernels_of
from gpuscope.cost.matmul.tiles import Unit
from gpuscope.hardware import device


@pytest.mark.parametrize(
    ("on", "rate", "unit", "aligned", "key"),
    [
        ("h200", "bf16", "matrix", 16, "matmul.bf16"),
        ("h200", "bf16", "matrix", 8, "matmul.bf16_unaligned"),
        ("h200", "bf16", "matrix", 2, "matmul.bf16_odd"),
        ("h200", "tf32", "matrix", 8, "matmul.tf32_odd"),  # float32: whole loads, or single ones
        ("mi300x", "bf16", "matrix", 2, "matmul.bf16_odd"),
        ("mi210", "fp32", "matrix", 16, "matmul.fp32_matrix"),
        ("tpu-v5p", "bf16", "matrix", 2, "matmul.bf16"),  # rows are padded in memory
        ("tpu-v5p", "fp32", "matrix", 16, "matmul.bf16"),  # in passes of bfloat16
    ],
)
def test_rows_that_begin_between_lines_rule_kernels_out(
    on: str, rate: str, unit: Unit, aligned: int, key: str
) -> None:
    assert gemm_kernels_of(device(on), rate, unit, "matmul", aligned).key == key


def test_hopper_has_kernels_of_two_generations() -> None:
    h200, a100 = device("h200"), device("a100-80gb")
    own = gemm_kernels_of(h200, "tf32", "matrix", "matmul", 16)
    earlier = gemm_kernels_of(h200, "tf32", "matrix", "matmul", 16, earlier=True)
    assert own.places[0] == "matmul.wgmma_tf32"
    assert earlier.places[0] == "matmul.mma_tf32"
    assert earlier.single
    assert gemm_kernels_of(a100, "tf32", "matrix", "matmul", 16).places[0] == "matmul.tf32"


def test_the_most_general_constants_come_last() -> None:
    found = gemm_kernels_of(device("h200"), "fp32", "vector", "matmul", 4)
    sums = "matmul.slices"
    assert found.places == ("matmul.ffma_fp32", "matmul.fp32", sums, "gemm.vector", "gemm")
    assert found.tiles == "ffma"


def test_convolutions_load_otherwise_without_kernels_of_their_own() -> None:
    family = "convolution.forward"
    four, one = (gemm_kernels_of(device("h200"), "bf16", "matrix", family, n) for n in (8, 2))
    assert four.key == one.key == f"{family}.bf16_unaligned"
    assert (four.places[1], one.places[1]) == ("gemm.unaligned", "gemm.odd")
    assert not one.single
