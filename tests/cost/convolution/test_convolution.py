from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import pytest
from matmul_work import channels_last, dense, run

from gpuscope.cost.types import Kernel
from gpuscope.hardware import device
from gpuscope.program.types import TensorSpec

SAMPLE = Path(__file__).parents[1] / "data" / "convolution_h200.csv"


def conv(
    n: int,
    c: int,
    size: int,
    k: int,
    r: int,
    stride: int = 1,
    pad: int = 0,
    groups: int = 1,
    dtype: str = "bfloat16",
    last: bool = False,
    which: str = "fwd",
    on: str = "h200",
    bias: bool = False,
    tf32: bool = True,
    hot: bool = False,
    **more: object,
) -> tuple[Kernel, ...]:
    """Kernels of a 2-D convolution or of one of its gradients."""
    make = channels_last if last else dense
    out = (size + 2 * pad - r) // stride + 1
    x, y = make(n, c, size, size, dtype=dtype), make(n, k, out, out, dtype=dtype)
    weight = make(k, c // groups, r, r, dtype=dtype)
    args: dict[str, object] = {
        "stride": (stride,) * 2,
        "padding": (pad,) * 2,
        "dilation": (1, 1),
        "transposed": False,
        "output_padding": (0, 0),
        "groups": groups,
        "output_mask": (which == "dgrad", which == "wgrad", which == "bias"),
        **more,
    }
    settings = {"tf32_cudnn": tf32}
    if which == "fwd":
        inputs = (x, weight, dense(k, dtype=dtype)) if bias else (x, weight)
        return run("aten::convolution", inputs, (y,), on, settings, hot, **args)
    result = {"dgrad": x, "wgrad": weight, "bias": dense(k, dtype=dtype)}[which]
    inputs = (y, x, weight)
    return run("aten::convolution_backward", inputs, (result,), on, settings, hot, **args)


def total_s(kernels: tuple[Kernel, ...]) -> float:
    return sum(kernel.duration_s for kernel in kernels)


@pytest.mark.parametrize("which", ["fwd", "dgrad", "wgrad"])
def test_each_pass_has_the_same_flops(which: str) -> None:
    flops = sum(k.flops for k in conv(8, 64, 56, 128, 3, 2, 1, last=True, which=which))
    assert flops == 2 * 8 * 28 * 28 * 128 * 64 * 9


def test_large_convolutions_approach_the_peak() -> None:
    kernels = conv(64, 512, 64, 512, 3, pad=1, last=True)
    rate = sum(k.flops for k in kernels) / total_s(kernels)
    assert 0.4 < rate / 989e12 < 0.95
    assert kernels[-1].limiter == "tensor_core"


def test_channels_first_pays_for_conversions() -> None:
    last, first = conv(16, 256, 56, 256, 3, pad=1, last=True), conv(16, 256, 56, 256, 3, pad=1)
    names = [k.name for k in first]
    assert names[:2] == ["nchw_to_nhwc"] * 2
    assert names[-1] == "nhwc_to_nchw"
    assert all("nhwc" not in k.name for k in last)
    assert total_s(first) > 1.3 * total_s(last)


def test_a_1x1_filter_is_an_ordinary_product_of_both_layouts() -> None:
    for last in (True, False):
        kernels = [k for k in conv(64, 256, 56, 64, 1, last=last) if k.kind == "convolution"]
        assert len(kernels) == 1
        assert "1x1_gemm" in kernels[0].name
        # 64 images of 256 and 64 channels at 56 x 56: bound by 257 MB of traffic.
        assert kernels[0].limiter == "memory"
        moved = 64 * 56 * 56 * (256 + 64) * 2
        assert 0.5 < moved / kernels[0].duration_s / 4.8e12 < 1.0


def test_channels_first_1x1_weight_gradient_adds_up_a_partial_result_an_image() -> None:
    kernels = conv(64, 256, 56, 64, 1, which="wgrad")
    assert kernels[-1].name == "reduce_wgrad"
    assert kernels[-1].read_bytes == 64 * 256 * 64 * 4


def test_float32_uses_tf32_unless_told_otherwise() -> None:
    fast = conv(16, 256, 28, 256, 3, pad=1, dtype="float32")
    slow = conv(16, 256, 28, 256, 3, pad=1, dtype="float32", tf32=False)
    assert {k.dtype for k in fast if k.kind == "convolution"} == {"tf32"}
    assert {k.dtype for k in slow if k.kind == "convolution"} == {"float32"}
    assert total_s(slow) > 2 * total_s(fast)


def test_depthwise_has_few_flops_and_much_time() -> None:
    wide = conv(16, 96, 56, 96, 7, pad=3, groups=96)
    assert len(wide) == 1
    assert wide[0].flops == 2 * 16 * 56 * 56 * 96 * 49
    assert wide[0].flops / wide[0].duration_s < 0.1 * 66.9e12
    half = conv(8, 96, 56, 96, 7, pad=3, groups=96)
    assert total_s(wide) == pytest.approx(2 * total_s(half), rel=0.2)


def test_bias_and_its_gradient_are_kernels_of_their_own() -> None:
    plain, biased = conv(8, 64, 56, 64, 3, pad=1), conv(8, 64, 56, 64, 3, pad=1, bias=True)
    assert [k.name for k in biased][-1] == "elementwise_add_bias"
    assert len(biased) == len(plain) + 1
    only = conv(8, 64, 56, 64, 3, pad=1, which="bias")
    assert [k.name for k in only] == ["reduce_bias"]


def test_a_transposed_convolution_costs_what_a_data_gradient_costs() -> None:
    weight = channels_last(128, 64, 4, 4)
    x, y = channels_last(8, 128, 28, 28), channels_last(8, 64, 56, 56)
    args: dict[str, object] = {"stride": (2, 2), "groups": 1, "transposed": True}
    kernels = run("aten::convolution", (x, weight), (y,), **args)
    assert sum(k.flops for k in kernels) == 2 * 8 * 28 * 28 * 128 * 64 * 16
    gradient = conv(8, 64, 56, 128, 4, 2, 1, last=True, which="dgrad")
    assert total_s(kernels) == pytest.approx(total_s(gradient), rel=0.05)


@pytest.mark.parametrize("dims", [1, 3])
def test_other_dimensions(dims: int) -> None:
    size = {1: (3000,), 3: (16, 28, 28)}[dims]
    positions = 3000 if dims == 1 else 16 * 28 * 28
    x, y = dense(2, 64, *size), dense(2, 128, *size)
    weight = dense(128, 64, *[3] * dims)
    args: dict[str, object] = {"stride": (1,) * dims, "groups": 1}
    kernels = run("aten::convolution", (x, weight), (y,), **args)
    assert sum(k.flops for k in kernels) == 2 * 2 * positions * 64 * 128 * 3**dims


@pytest.mark.parametrize("on", ["a100", "v100", "l4", "rtx-4090", "mi300x", "tpu-v5p", "m2-max"])
def test_other_devices_answer_within_their_means(on: str) -> None:
    dtype = "bfloat16" if on == "tpu-v5p" else "float16"
    kernels = conv(64, 256, 28, 256, 3, pad=1, dtype=dtype, on=on)
    rate = sum(k.flops for k in kernels) / total_s(kernels)
    assert 0.15 < rate / device(on).peak_flops_per_s(dtype) < 1.0
    assert {k.origin for k in kernels} == {"estimated"}
    assert all(k.low_s < k.duration_s < k.high_s for k in kernels)


def test_more_images_never_take_less_time() -> None:
    times = [total_s(conv(n, 128, 28, 128, 3, pad=1, last=True)) for n in (1, 4, 16, 64, 256)]
    assert times == sorted(times)


def test_recorded_convolutions_stay_within_their_errors() -> None:
    """A committed sample of durations recorded on an H200, none of them tuned on."""
    errors, inside = [], 0
    with SAMPLE.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        numbers = [int(row[name]) for name in ("n", "c", "hw", "k", "r", "stride", "pad", "groups")]
        kernels = conv(
            *numbers,
            dtype="bfloat16" if row["dtype"] == "bf16" else "float32",
            last=row["layout"] == "nhwc",
            which=row["dir"],
            tf32=row["dtype"] == "tf32",
            hot=True,
        )
        measured_s = float(row["seconds"])
        errors.append(abs(total_s(kernels) / measured_s - 1))
        low, high = sum(k.low_s for k in kernels), sum(k.high_s for k in kernels)
        inside += low <= measured_s <= high
    assert len(rows) >= 60
    assert median(errors) < 0.15
    assert inside / len(rows) > 0.65


def test_empty_output_launches_nothing() -> None:
    empty = TensorSpec((0, 8, 4, 4), (128, 16, 4, 1), "bfloat16")
    assert run("aten::convolution", (empty, dense(8, 8, 1, 1)), (empty,), groups=1) == ()


def test_narrow_groups_share_a_tile() -> None:
    """64 groups of 4 channels are 4 products of 64: an H200 took 25 us forward, channels last, on a
    grid of 4 x 392 blocks; 64 products of padded tiles would be half a millisecond."""
    from gpuscope.cost.convolution.shape import ConvShape

    shape = ConvShape(32, 256, 256, 784, 784, 9, 64, 1, True)
    packed = shape.packed(64)
    assert packed.groups == 4
    assert packed.product("forward") == (32 * 784, 64, 64 * 9)
    assert packed.packed(64) == packed
    wide = ConvShape(32, 256, 256, 784, 784, 9, 2, 1, True)
    assert wide.packed(64) == wide


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_few_channels_first_are_read_as_they_lie(dtype: str) -> None:
    """As cuDNN runs them: one kernel of 3 to 5 us on an H200, where three conversions alone take
    as long; wide channels are worth converting."""
    kernels = conv(8, 3, 8, 64, 3, pad=1, dtype=dtype, hot=True)
    assert len(kernels) == 1
    assert 2.5e-6 < total_s(kernels) < 5e-6
    wide = [k.name for k in conv(64, 64, 32, 64, 3, pad=1, dtype=dtype)]
    assert wide.count("nchw_to_nhwc") == 2
    assert wide[-1] == "nhwc_to_nchw"


def test_16_channels_are_read_as_they_lie_in_float32_alone() -> None:
    """Half precision has no such kernel where 16 bytes hold eight channels."""
    assert len(conv(8, 16, 8, 16, 3, pad=1, dtype="float32")) == 1
    assert len(conv(8, 16, 8, 16, 3, pad=1, dtype="bfloat16")) == 4
