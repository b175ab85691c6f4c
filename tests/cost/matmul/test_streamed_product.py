"""Products of four bits: bound by what their kernels are bound by."""

from __future__ import annotations

import pytest

from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op
from gpuscope.serving.operators import dense


def seconds(name: str, left: str, groups: int, rows: int, rate: str = "") -> float:
    on = device(name)
    a = dense(groups, rows, 4096, dtype=left)
    b = dense(groups, 4096, 8192, dtype="int4", storage=1)
    args: dict[str, object] = {"rate": rate} if rate else {}
    op = Op(
        0, "gpuscope::streamed_mm", inputs=(a, b), outputs=(dense(groups, rows, 8192),), args=args
    )
    model = model_for(op.name)
    assert model is not None
    return sum(k.duration_s for k in model(Work(op, on, Constants(calibration_for(on)))))


def test_experts_on_blackwell_are_read_at_the_pace_of_memory() -> None:
    read_s = 64 * 4096 * 8192 / 2 / device("b200").memory_bandwidth_bytes_per_s
    assert seconds("b200", "float8_e4m3fn", 64, 4, "fp4") == pytest.approx(read_s, rel=0.1)


def test_a_whole_matrix_has_no_kernel_for_few_rows() -> None:
    few = seconds("b200", "float8_e4m3fn", 1, 8, "fp4")
    assert few > 1.3 * 4096 * 8192 / 2 / device("b200").memory_bandwidth_bytes_per_s


def test_hopper_unpacks_at_a_pace_of_its_own() -> None:
    """Ten bytes a clock and multiprocessor: slower than its memory, A100's is the slower there."""
    h200, a100 = device("h200"), device("a100-80gb")
    packed = 64 * 4096 * 8192 / 2
    assert h200.compute_units is not None
    assert h200.clock_hz is not None
    unpack_s = packed / (10 * h200.compute_units * h200.clock_hz)
    assert seconds("h200", "bfloat16", 64, 4) == pytest.approx(unpack_s, rel=0.05)
    assert unpack_s > packed / h200.memory_bandwidth_bytes_per_s
    read_s = packed / a100.memory_bandwidth_bytes_per_s
    assert read_s < seconds("a100-80gb", "bfloat16", 64, 4) < 1.4 * read_s


def test_many_rows_are_arithmetic() -> None:
    one, two = (seconds("b200", "float8_e4m3fn", 8, rows, "fp4") for rows in (4096, 8192))
    assert two == pytest.approx(2 * one, rel=0.1)
    assert seconds("b200", "float8_e4m3fn", 8, 8192, "fp4") < seconds(
        "b200", "float8_e4m3fn", 8, 8192
    )
