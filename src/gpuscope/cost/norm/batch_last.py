"""Batch norm with the channels innermost: blocks are cut along channels and pixels."""

from __future__ import annotations

from math import ceil

from gpuscope.cost.norm.channel_walk import Traffic, blocks_kernel, float_weights, shape_of
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec


def channels_last(spec: TensorSpec) -> bool:
    """Whether channels lie innermost, as they do in batches of plain rows."""
    return spec.is_channels_last or (len(spec.shape) == 2 and spec.is_contiguous)


def tiles(channels: int, rows: int, together: bool) -> tuple[int, int, int, int]:
    """How a channels-last kernel cuts its work (`flexible_launch_configs`, Normalization.cuh).

    Args:
        channels: of the data.
        rows: values of a channel.
        together: the blocks of a channel add up their results: only from 8 of them on.

    Returns:
        (blocks, threads of each, dependent steps of a thread, blocks of a channel).
    """

    def power(n: int) -> int:
        return 1 << max(n, 1).bit_length() - 1

    across = min(power(channels), 32)
    down = min(power(ceil(rows / 16)), 512 // across)
    if across * down != 512:
        across = min(power(channels), 512 // down)
    deep = min(ceil(rows / (down * 16)), 128)
    if together and deep < 8:
        deep = 1
    steps = ceil(rows / (down * max(deep, 1) * 4))
    return ceil(channels / across) * max(deep, 1), across * down, steps, max(deep, 1)


def shares_sums(spec: TensorSpec) -> bool:
    """Whether several blocks share a channel's sums, through memory that is cleared first."""
    channels = shape_of(spec)[1]
    return tiles(channels, spec.numel // max(channels, 1), True)[3] > 1


def last_kernel(work: Work, key: str, spec: TensorSpec, moved: Traffic) -> Kernel:
    """One of ATen's channels-last kernels."""
    get = work.constants.value
    channels = shape_of(spec)[1]
    rows = spec.numel // max(channels, 1)
    together = key in ("statistics", "backward_reduce")
    grid, block, steps, deep = tiles(channels, rows, together)
    name = f"normalization.batch.nhwc.{key}"
    if spec.dtype == "float32":  # four values in one load
        name += ".float32"
    each = get(f"{name}.step_s")
    if key == "transform" and spec.dtype != "float32" and not float_weights(work):
        each += get(f"{name}.narrow_s")  # factors are widened value by value
    chain = get(f"{name}.base_s") + steps * each
    if together and deep > 1:  # the last block of a channel reads what the others wrote
        chain += get("normalization.batch.nhwc.together_s")
    return blocks_kernel(
        work,
        f"batch_norm_{key}_channels_last",
        spec,
        moved,
        get(f"{name}.cycles"),
        (grid, block),
        chain,
        steps * get(f"{name}.load"),
        note=Text("{steps} steps of four values a thread", steps=steps),
    )
