from __future__ import annotations

import pytest
from memory_work import dense, run

from gpuscope.cost.norm.batch import _library_cut
from gpuscope.cost.types import Kernel


def norm(*shape: int, dtype: str = "float32", training: bool = True) -> tuple[Kernel, ...]:
    x, out = dense(*shape, dtype=dtype, at=0), dense(*shape, dtype=dtype, at=1)
    weights = dense(shape[1], dtype=dtype, at=2)
    return run(
        "native_batch_norm",
        (x, weights, weights, weights, weights),
        (out, weights, weights),
        training=training,
    )


def test_batches_of_rows_have_their_channels_innermost() -> None:
    names = [k.name for k in norm(512, 256)]
    assert names == [
        "batch_norm_statistics_channels_last",
        "batch_norm_update",
        "batch_norm_transform_channels_last",
    ]


def test_blocks_of_small_images_wait_to_begin() -> None:
    """2,048 channels of 64 images of 49 values, bfloat16: 131,072 blocks took 80.2 us, five times
    what their bytes need."""
    made = norm(64, 2048, 7, 7, dtype="bfloat16", training=False)[-1]
    assert made.grid == 131_072
    assert made.duration_s == pytest.approx(80.2e-6, rel=0.05)


def test_a_last_step_of_few_values_takes_as_long_as_a_full_one() -> None:
    """28 x 28 values are three steps of 256 and one of 16, 112 x 112 are 24.5 steps of 512."""
    small = norm(256, 512, 28, 28, dtype="float16", training=False)[-1]
    large = norm(256, 32, 112, 112, dtype="float16", training=False)[-1]
    assert small.written_bytes == large.written_bytes
    assert small.duration_s > 1.15 * large.duration_s


def test_inference_in_half_precision_widens_its_statistics() -> None:
    assert [k.name for k in norm(8, 64, 14, 14, dtype="float16", training=False)] == [
        "copy",
        "batch_norm_invstd",
        "batch_norm_transform",
    ]


@pytest.mark.parametrize(
    ("images", "channels", "size", "paired"),
    [(512, 64, 32, False), (512, 128, 16, False), (512, 256, 8, True)],
)
def test_float16_is_worked_on_in_pairs_only_where_a_block_keeps_its_channel(
    images: int, channels: int, size: int, paired: bool
) -> None:
    """Recorded on an H100: 361, 92 and 13.3 us (bn_fw_tr_1C11_kernel_NCHW<__half> twice, then
    bn_fw_tr_1C11_singleread_spec<__half2>)."""
    shape = (images, channels, size, size)
    weights = dense(channels, dtype="float32", at=2)
    took = []
    for dtype in ("float16", "float32"):
        x, out = dense(*shape, dtype=dtype, at=0), dense(*shape, dtype=dtype, at=1)
        (made,) = run(
            "cudnn_batch_norm",
            (x, weights, weights, weights, weights),
            (out, weights, weights),
            training=True,
        )
        took.append(made.duration_s)
    assert (took[0] < 0.8 * took[1]) == paired


def test_cudnn_takes_none_without_weights() -> None:
    """Standardised filters (timm's StdConv2d) are batch norms of one image without weights."""
    x, out = (dense(1, 256, 576, at=at) for at in (0, 1))
    sums = dense(256, at=2)
    made = run("native_batch_norm", (x,), (out, sums, sums), weight=None, bias=None, training=True)
    assert [k.name for k in made] == [
        "batch_norm_statistics",
        "batch_norm_update",
        "batch_norm_transform",
    ]


@pytest.mark.parametrize(
    ("channels", "side", "blocks"),
    [(96, 9, 1), (24, 26, 2), (960, 24, 9), (48, 58, 10), (16, 104, 11), (960, 61, 28)],
)
def test_inference_is_cut_as_recorded_grids_are(channels: int, side: int, blocks: int) -> None:
    steps, found = _library_cut(channels * side**2)
    assert found == blocks
    assert steps * found * 512 >= channels * side**2
