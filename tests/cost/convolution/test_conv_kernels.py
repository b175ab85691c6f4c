"""Which kernels a convolution launches: copies, plain products, groups, few channels."""

from __future__ import annotations

import pytest
from matmul_work import dense
from test_convolution import conv, total_s


def names(**sizes: object) -> list[str]:
    return [kernel.name for kernel in conv(**sizes)]  # type: ignore[arg-type]


def test_an_image_of_one_pixel_is_a_plain_product() -> None:
    (squeezed,) = conv(n=32, c=512, size=1, k=128, r=1)
    assert "1x1_gemm" in squeezed.name
    assert squeezed.duration_s < 4e-6  # nvjet takes 2.0 to 2.6 µs


def test_cudnn_adds_a_depthwise_bias_by_itself_and_aten_does_not() -> None:
    last = names(n=8, c=64, size=28, k=64, r=3, pad=1, groups=64, last=True, bias=True)
    assert last == ["conv_depthwise_fprop", "elementwise_add_bias"]
    first = names(n=8, c=64, size=28, k=64, r=3, pad=1, groups=64, bias=True)
    assert first == ["conv_depthwise_fprop"]


@pytest.mark.parametrize(
    ("sizes", "recorded_s"),
    [
        # ATen's own, cuDNN's of channels last, float16's that tiles in shared memory (µs of H200).
        ({"n": 64, "c": 192, "size": 28, "r": 3, "hot": True}, 93.6e-6),
        ({"n": 1, "c": 384, "size": 14, "r": 3, "dtype": "float16", "hot": True}, 2.1e-6),
        ({"n": 16, "c": 192, "size": 28, "r": 7, "dtype": "float16", "last": True}, 24.2e-6),
        ({"n": 43, "c": 640, "size": 15, "r": 7, "last": True, "which": "dgrad"}, 114.8e-6),
        ({"n": 13, "c": 448, "size": 76, "r": 3, "last": True, "which": "wgrad"}, 73.1e-6),
    ],
)
def test_depthwise_kernels_are_near_recorded_ones(sizes: dict[str, int], recorded_s: float) -> None:
    c, r = sizes["c"], sizes["r"]
    found = total_s(conv(k=c, pad=r // 2, groups=c, **sizes))  # type: ignore[arg-type]
    assert found == pytest.approx(recorded_s, rel=0.25)


def test_groups_of_one_width_stay_where_they_are() -> None:
    even = names(n=16, c=256, size=28, k=256, r=3, pad=1, groups=16, last=True)
    assert "spread_groups" not in even
    odd = names(n=16, c=384, size=28, k=640, r=3, pad=1, groups=16, last=True)
    assert odd.count("spread_groups") == 3


def test_float32_runs_groups_one_by_one_where_channels_are_last() -> None:
    found = names(n=8, c=128, size=28, k=128, r=3, groups=8, dtype="float32", tf32=False, last=True)
    assert len([name for name in found if "fprop" in name]) == 8


def test_patches_of_an_image_cost_a_step_a_tap() -> None:
    patches = conv(n=64, c=3, size=224, k=768, r=16, stride=16, last=True)
    main = max(patches, key=lambda kernel: kernel.duration_s)
    assert main.duration_s == pytest.approx(384e-6, rel=0.15)


def test_long_filters_of_groups_are_walked_tap_by_tap() -> None:
    from matmul_work import run

    x, weight, y = dense(8, 768, 24), dense(768, 48, 128), dense(8, 768, 25)
    args = {"stride": (1,), "padding": (64,), "dilation": (1,), "groups": 16, "transposed": False}
    found = run("aten::convolution", (x, weight), (y,), "h200", {"tf32_cudnn": True}, False, **args)
    assert total_s(found) == pytest.approx(10.7e-3, rel=0.1)


def test_rows_that_do_not_suit_copies_take_whichever_is_quicker() -> None:
    few = names(n=2, c=160, size=7, k=960, r=1)
    many = names(n=64, c=768, size=7, k=768, r=1)
    assert "nchw_to_nhwc" not in few
    assert "nchw_to_nhwc" in many


def test_a_dense_tensor_is_not_copied() -> None:
    assert dense(4, 8, 3, 3).is_contiguous
    assert not any("copy" in name for name in names(n=4, c=64, size=14, k=64, r=3, pad=1))


@pytest.mark.parametrize(
    ("sizes", "recorded_s"),
    [
        # Gradients of gradients, bfloat16, in place (µs of H200): filters as large as the picture.
        ({"n": 32, "c": 1, "size": 30, "k": 73, "r": 28, "pad": 1}, 243.6e-6),
        ({"n": 1, "c": 32, "size": 30, "k": 73, "r": 28, "pad": 1}, 239.3e-6),
        ({"n": 54, "c": 3, "size": 35, "k": 3, "r": 33}, 354.9e-6),
        ({"n": 11, "c": 64, "size": 26, "k": 16, "r": 24, "pad": 1}, 166.3e-6),
    ],
)
def test_a_filter_of_the_pictures_size_waits_tap_by_tap(
    sizes: dict[str, int], recorded_s: float
) -> None:
    found = conv(hot=True, **sizes)  # type: ignore[arg-type]
    assert total_s(found) == pytest.approx(recorded_s, rel=0.15)


@pytest.mark.parametrize(
    ("sizes", "recorded_s"),
    [
        # TF32, channels first, in place (µs of H200): few input channels, or little work.
        ({"n": 24, "c": 3, "size": 127, "k": 80}, 156.6e-6),
        ({"n": 16, "c": 3, "size": 256, "k": 64}, 341.2e-6),
        ({"n": 16, "c": 4, "size": 64, "k": 320}, 89.4e-6),
    ],
)
def test_small_data_gradients_add_in_memory(sizes: dict[str, int], recorded_s: float) -> None:
    found = conv(r=3, pad=1, dtype="float32", which="dgrad", hot=True, **sizes)  # type: ignore[arg-type]
    assert found[0].name == "zero_gradient"
    assert total_s(found) == pytest.approx(recorded_s, rel=0.2)
    (*_, wide) = names(n=16, c=64, size=64, k=320, r=3, pad=1, dtype="float32", which="dgrad")
    assert wide != found[-1].name
