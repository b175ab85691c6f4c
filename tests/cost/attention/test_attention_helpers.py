"""Small kernels around attention."""

from __future__ import annotations

from gpuscope.cost.attention.helpers import efficient_helpers, stream, tiny
from gpuscope.cost.registry import Constants, Work
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op, TensorSpec

H200 = device("h200")


def work(dtype: str, keys: int) -> Work:
    """A backward pass of 2 x 8 heads of 64."""

    def spec(rows: int) -> TensorSpec:
        return TensorSpec((2, 8, rows, 64), (8 * rows * 64, rows * 64, 64, 1), dtype)

    inputs = (spec(256), spec(256), spec(keys), spec(keys), spec(256))
    op = Op(0, "gpuscope::attention_backward", inputs=inputs, outputs=inputs[1:4])
    return Work(op, H200, Constants(calibration_for(H200)))


def test_only_float32_prepares_its_sums_apart() -> None:
    """Half precision has them in the main kernel; many keys want zeros to add to."""
    assert efficient_helpers(work("float16", 256)) == ()
    assert len(efficient_helpers(work("float32", 64))) == 3
    assert efficient_helpers(work("float32", 256))[-1].name == "attention_zero_dq"


def test_streams_take_their_bytes() -> None:
    """A hundred times the bytes take a hundred times as long, beside the floor."""
    given = work("float32", 64)
    small, large = (stream(given, "x", n, n, "multiply") for n in (1e9, 1e11))
    assert 80 < large.duration_s / small.duration_s < 101
    assert tiny(given, "memset").duration_s < small.duration_s
