"""cuDNN's data gradients in float32 on the vector lanes."""

from __future__ import annotations

import pytest
from test_convolution import conv, total_s

from gpuscope.cost.types import Kernel

Sizes = dict[str, int]


def gradient(**sizes: object) -> tuple[Kernel, ...]:
    return conv(dtype="float32", tf32=False, which="dgrad", hot=True, **sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "recorded_s"),
    [
        # Bound by arithmetic, by additions, by a block's own walk (µs of H200).
        ({"n": 54, "c": 16, "k": 832, "size": 30, "r": 3, "pad": 1}, 457.6e-6),
        ({"n": 2, "c": 80, "k": 192, "size": 114, "r": 7, "pad": 3}, 1396.5e-6),
        ({"n": 4, "c": 832, "k": 640, "size": 15, "r": 3, "pad": 1, "stride": 2}, 88.3e-6),
    ],
)
def test_it_is_near_recorded_launches(sizes: Sizes, recorded_s: float) -> None:
    zero, main = gradient(**sizes)
    assert (zero.name, main.name) == ("zero_gradient", "conv_dgrad_engine")
    assert zero.duration_s + main.duration_s == pytest.approx(recorded_s, rel=0.12)


def test_channels_last_tensors_are_converted_around_it() -> None:
    sizes = {"n": 54, "c": 16, "k": 832, "size": 30, "r": 3, "pad": 1}
    first, last = gradient(**sizes), gradient(last=True, **sizes)
    names = [kernel.name for kernel in last]
    assert [n for n in names if n.endswith("nhwc")] == ["nchw_to_nhwc"] * 2
    assert names[-1] == "nhwc_to_nchw"
    assert total_s(last) > total_s(first)
