from __future__ import annotations

from dataclasses import replace

import pytest
from memory_work import dense, run

from gpuscope.program.types import TensorSpec


def grad(last: bool, images: int = 8, side: int = 64) -> TensorSpec:
    spec = dense(images, 64, side, side, dtype="bfloat16", at=0)
    if not last:
        return spec
    return replace(spec, stride=(64 * side * side, 1, 64 * side, 64))


def bias_kernel(last: bool, **sizes: int) -> tuple[str, float]:
    y = grad(last, **sizes)
    x, weight = replace(y, storage=1), dense(64, 64, 3, 3, dtype="bfloat16", at=2)
    made = run(
        "convolution_backward",
        (y, x, weight),
        (dense(64, dtype="bfloat16"),),
        stride=(1, 1),
        groups=1,
        output_mask=(False, False, True),
    )
    main = [k for k in made if k.kind == "reduction"]
    return main[-1].name, sum(k.duration_s for k in made)


def test_channels_first_a_block_walks_a_channel() -> None:
    assert bias_kernel(False)[0] == "reduce_bias"
    assert bias_kernel(False, side=128)[1] > bias_kernel(False)[1]


def test_channels_last_is_an_ordinary_reduction() -> None:
    assert "bias" in bias_kernel(True)[0]
    assert bias_kernel(True, images=64)[1] > bias_kernel(True)[1]


def test_adding_a_bias_is_bound_by_arithmetic_not_bytes() -> None:
    x, weight = grad(False, 32), dense(64, 64, 3, 3, dtype="bfloat16", at=2)
    made = run(
        "convolution",
        (x, weight, dense(64, dtype="bfloat16", at=3)),
        (replace(x, storage=4),),
        stride=(1, 1),
        groups=1,
    )
    add = next(k for k in made if k.name == "elementwise_add_bias")
    assert add.limiter == "issue"
    assert add.compute_s > add.memory_s


@pytest.mark.parametrize(
    ("images", "channels", "side", "blocks", "us"),
    [
        (2, 32, 941, 17 * 32, 114.3),  # 528 blocks may run at once: 17 for each of 32 channels
        (25, 64, 84, 9 * 64, 27.3),
        (25, 64, 42, 64, 19.3),  # 86 values a thread: one block a channel
        (1536, 3, 64, 176 * 3, 37.2),
    ],
)
def test_few_channels_of_many_values_are_shared_by_blocks(
    images: int, channels: int, side: int, blocks: int, us: float
) -> None:
    """Grids and times as recorded on an H200."""
    dtype = "bfloat16" if images == 2 else "float32"
    y = dense(images, channels, side, side, dtype=dtype, at=0)
    made = run(
        "convolution_backward",
        (y, replace(y, storage=1), dense(channels, channels, 3, 3, dtype=dtype, at=2)),
        (dense(channels, dtype=dtype),),
        stride=(1, 1),
        groups=1,
        output_mask=(False, False, True),
    )
    assert made[-1].grid == blocks
    assert ("memset" in made[0].name) == (blocks > channels)
    assert made[-1].duration_s * 1e6 == pytest.approx(us, rel=0.25)
