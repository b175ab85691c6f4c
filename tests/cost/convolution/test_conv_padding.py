"""Odd channels: padded as recorded on an H200, and never cheaper than the next multiple."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from math import exp, log
from pathlib import Path

import pytest
from matmul_work import channels_last, dense, run

from gpuscope.cost.convolution.padding import is_odd, rounded
from gpuscope.cost.convolution.shape import ConvShape
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

RECORDED = (
    Path(__file__).parents[3]
    / "validation"
    / "recordings"
    / "h200"
    / "micro"
    / "odd_channels.csv.gz"
)

TF32 = {"tf32_cudnn": True}


def _tensor(layout: str, dtype: str, *shape: int) -> TensorSpec:
    stored = "float32" if dtype == "tf32" else "bfloat16"
    made = channels_last if layout == "nhwc" else dense
    return made(*shape, dtype=stored)


def _kernels(
    c: int,
    k: int,
    direction: str = "fwd",
    layout: str = "nhwc",
    dtype: str = "bf16",
    on: str = "h200",
) -> tuple[Kernel, ...]:
    x = _tensor(layout, dtype, 32, c, 56, 56)
    weight = _tensor(layout, dtype, k, c, 3, 3)
    y = _tensor(layout, dtype, 32, k, 56, 56)
    args = {"stride": (1, 1), "padding": (1, 1), "groups": 1}
    if direction == "fwd":
        return run("aten::convolution", (x, weight), (y,), on=on, settings=TF32, **args)
    mask = (direction == "dgrad", direction == "wgrad", False)
    return run(
        "aten::convolution_backward",
        (y, x, weight),
        (x, weight),
        on=on,
        settings=TF32,
        output_mask=mask,
        **args,
    )


def _time_us(*case: object) -> float:
    return 1e6 * sum(k.duration_s for k in _kernels(*case))  # type: ignore[arg-type]


def test_near_what_was_recorded() -> None:
    """Without padding these read 0.26 to 0.74 of the recorded times, half on average."""
    measured: dict[tuple[str, str, str, int, int], float] = defaultdict(float)
    with gzip.open(RECORDED, "rt") as file:
        for row in csv.DictReader(file):
            key = (row["dir"], row["dtype"], row["layout"], int(row["c"]), int(row["k"]))
            measured[key] += float(row["us"])
    ratios = [
        _time_us(c, k, direction, layout, dtype) / us
        for (direction, dtype, layout, c, k), us in measured.items()
        if layout == "nhwc" and dtype == "bf16" and (c % 8 or k % 8)
    ]
    assert len(ratios) == 36
    mean = exp(sum(map(log, ratios)) / len(ratios))
    assert 0.75 < mean < 1.1
    assert min(ratios) > 0.5
    assert max(ratios) < 1.2


def test_which_channels_are_odd() -> None:
    assert [c for c in range(8, 33) if not is_odd(c, 2)] == [8, 16, 24, 32]
    assert [c for c in range(8, 17) if not is_odd(c, 4)] == [8, 12, 16]
    assert not is_odd(3, 2)  # another case


def test_each_odd_tensor_is_padded_once() -> None:
    def pads(c: int, k: int, layout: str = "nhwc", on: str = "h200") -> int:
        kernels = _kernels(c, k, layout=layout, on=on)
        return sum(kernel.name == "nhwc_pad_channels" for kernel in kernels)

    assert pads(256, 256) == 0
    assert pads(257, 256) == 2  # the input and the filters
    assert pads(256, 257) == 1  # the result
    assert pads(257, 257) == 3
    assert pads(257, 257, "nchw") == 0  # the conversion of the layout does it
    assert pads(257, 257, on="mi300x") == 0
    assert pads(3, 64) == 0


@pytest.mark.parametrize("direction", ["fwd", "dgrad", "wgrad"])
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_an_odd_one_is_dearer_than_the_next_multiple(direction: str, layout: str) -> None:
    for c, next_one in ((60, 64), (63, 64), (65, 72), (255, 256), (257, 264)):
        odd = _time_us(c, 64, direction, layout)
        assert odd >= 0.99 * _time_us(next_one, 64, direction, layout)


def test_groups_are_left_alone() -> None:
    shape = ConvShape(1, 66, 66, 100, 100, 9, 2, 1, True)
    assert rounded(shape, 2) == shape
    assert rounded(ConvShape(1, 66, 70, 100, 100, 9, 1, 1, True), 2).channels_in == 128


def test_channels_fill_whole_steps_of_the_main_loop() -> None:
    from gpuscope.cost.convolution.padding import stepped

    assert [stepped(c, 2) for c in (16, 24, 32, 40, 64, 80, 160)] == [32, 32, 32, 64, 64, 128, 192]
    assert stepped(3, 2) == 3  # has a factor of its own
    assert stepped(3, 2, "data_gradient") == 32  # a whole step for each tap
    assert [stepped(c, 4) for c in (16, 24, 32, 48)] == [16, 32, 32, 64]
