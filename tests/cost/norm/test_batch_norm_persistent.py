"""cuDNN's channels-last batch norm: its grids and times as recorded on an H200."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_work import dense, run

from gpuscope.cost.norm.batch_persistent import KEPT, cut

BLOCKS = 264
"""Two for each of an H200's 132 multiprocessors."""


@pytest.mark.parametrize(
    ("shape", "backward", "deep", "wide", "kept"),
    [
        ((32, 8, 21, 21), True, 147, 1, True),
        ((16, 320, 17, 17), True, 49, 5, True),
        ((32, 512, 28, 28), True, 131, 2, True),
        ((16, 648, 14, 14), True, 20, 11, True),
        ((16, 75, 28, 28), True, 66, 4, True),  # a channel a thread: 75 is no multiple of 4
        ((16, 75, 28, 28), False, 49, 5, True),
        ((34, 152, 26, 26), False, 80, 3, True),
        ((16, 144, 56, 56), False, 262, 1, True),
        ((64, 32, 112, 112), False, 264, 1, False),
        ((16, 192, 71, 71), True, 264, 1, False),
    ],
)
def test_grids_are_those_of_recorded_calls(
    shape: tuple[int, int, int, int], backward: bool, deep: int, wide: int, kept: bool
) -> None:
    n, channels, height, width = shape
    way = cut(channels, n * height * width, backward, 4, BLOCKS)
    assert (way.deep, way.wide, way.kept) == (deep, wide, kept)


@given(
    st.integers(1, 4096), st.integers(1, 10**6), st.booleans(), st.sampled_from((2, 4)),
    st.integers(8, 400),
)  # fmt: skip
def test_all_rows_and_channels_are_walked_by_blocks_that_are_there_at_once(
    channels: int, rows: int, backward: bool, itemsize: int, blocks: int
) -> None:
    way = cut(channels, rows, backward, itemsize, blocks)
    across = 16 * (4 if channels % 4 == 0 else 1)
    assert way.deep * way.wide <= blocks
    assert way.wide * way.turns * across >= channels
    assert way.deep * way.rows * 32 >= rows
    assert not way.kept or way.rows <= KEPT[backward, itemsize][1]


def device_us(shape: tuple[int, int, int, int]) -> float:
    _, channels, height, width = shape
    strides = (height * width * channels, 1, width * channels, channels)
    x, out = (replace(dense(*shape, at=at), stride=strides) for at in (0, 1))
    weights = dense(channels, at=2)
    data, results = (x, *(weights,) * 4), (out, weights, weights)
    made = run("native_batch_norm", data, results, hot=True, training=True)
    (kernel,) = (k for k in made if k.name == "batch_norm_library_channels_last")
    return kernel.duration_s * 1e6


@pytest.mark.parametrize(
    ("shape", "recorded_us"),
    [
        ((16, 64, 35, 35), 9.8),
        ((2, 128, 17, 17), 5.1),
        ((34, 152, 26, 26), 15.4),
        ((16, 75, 28, 28), 8.6),
        ((64, 32, 112, 112), 100.1),
    ],
)
def test_times_are_those_of_recorded_calls(
    shape: tuple[int, int, int, int], recorded_us: float
) -> None:
    assert device_us(shape) == pytest.approx(recorded_us, rel=0.25)


def test_a_channel_a_thread_takes_turns_where_four_do_not() -> None:
    """58 channels are four turns, 64 one: 39.1 us recorded for as much memory."""
    assert device_us((16, 58, 56, 56)) > 1.5 * device_us((16, 64, 56, 56))
