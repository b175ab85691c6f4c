from __future__ import annotations

import pytest
from memory_work import dense, median_error, one, run

ROWS = 4096


def softmax(columns: int, dtype: str = "float32") -> str:
    x = dense(ROWS, columns, dtype=dtype, at=0)
    return one("_softmax", (x,), (dense(ROWS, columns, dtype=dtype, at=1),), dim=-1).name


@pytest.mark.parametrize(
    ("columns", "dtype", "name"),
    [
        (768, "float32", "softmax_warp_forward"),
        (2048, "float32", "softmax_warp_forward"),
        (4096, "float32", "softmax_block_in_registers"),
        (50257, "float32", "softmax_block_forward"),
        (128256, "bfloat16", "softmax_block_forward"),
    ],
)
def test_rows_choose_the_recorded_kernel(columns: int, dtype: str, name: str) -> None:
    assert softmax(columns, dtype) == name


def test_rows_that_outgrow_the_cache_are_read_three_times() -> None:
    """4,096 rows of 128,256 float32: 3 reads and 1 write of 2.1 GB take 2.03 ms on an H200."""
    x = dense(4096, 128256, at=0)
    made = one("_log_softmax", (x,), (dense(4096, 128256, at=1),), dim=-1)
    size = 4096 * 128256 * 4
    assert made.read_bytes == pytest.approx(3 * size)
    assert made.least_bytes == pytest.approx(2 * size)
    assert made.duration_s == pytest.approx(2.03e-3, rel=0.1)


def test_short_rows_are_read_once() -> None:
    x = dense(98304, 1024, at=0)
    made = one("_softmax", (x,), (dense(98304, 1024, at=1),), dim=-1)
    assert made.read_bytes == 98304 * 1024 * 4
    assert made.duration_s == pytest.approx(198e-6, rel=0.15)


def test_log_softmax_backward_reads_only_the_gradient_twice() -> None:
    """The first pass sums the gradient alone; softmax's is multiplied by the result before."""
    grad, out = dense(4096, 128256, at=0), dense(4096, 128256, at=1)
    log = one("_log_softmax_backward_data", (grad, out), (dense(4096, 128256, at=2),), dim=-1)
    times, plain = run("_softmax_backward_data", (grad, out), (dense(4096, 128256, at=2),), dim=-1)
    size = 4096 * 128256 * 4
    assert log.read_bytes == pytest.approx(3 * size)
    assert times.kind == "pointwise"
    assert times.read_bytes == pytest.approx(2 * size)
    assert plain.read_bytes == pytest.approx(3 * size)


def test_another_dimension_is_walked_with_a_stride() -> None:
    x = dense(512, 512)
    assert one("_softmax", (x,), (x,), dim=0).name == "softmax_spatial"


def test_recorded_calls() -> None:
    assert median_error("_softmax", "_log_softmax", "_log_softmax_backward_data") < 0.18


def test_rocm_gives_rows_over_1024_values_a_block() -> None:
    """Kernel names of PyTorch 2.4.1 on an MI210; rows that no vector fits are read three times."""

    def name(columns: int) -> str:
        x = dense(ROWS, columns, at=0)
        return one("_softmax", (x,), (dense(ROWS, columns, at=1),), on="mi210", dim=-1).name

    assert name(1024) == "softmax_warp_forward"
    assert name(2048) == "softmax_block_in_shared_memory"
    assert name(2047) == "softmax_block_forward"
