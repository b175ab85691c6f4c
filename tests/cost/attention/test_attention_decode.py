"""Decoding: how keys are split, and the limits of the kernel's time."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpuscope.cost.attention.decode import (
    DecodeRates,
    decode_blocks,
    decode_s,
    decode_splits,
    decode_width,
)

RATES = DecodeRates(
    start_s=3e-6,
    alone_s=1e-6,
    shared_s=5e-7,
    mask_s=2e-7,
    mask_odd_s=3e-7,
    cold_s=2e-6,
    bandwidth_efficiency=0.9,
    l2_ratio=1.5,
)


def seconds(
    groups: int = 32, keys: int = 1024, width: int = 128, hot: bool = True, masked: bool = False
) -> float:
    """The kernel's time on a machine with 132 multiprocessors and 4.8 TB/s."""
    splits = decode_splits(132, groups, keys)
    return decode_s(
        RATES,
        width,
        132,
        4.8e12,
        blocks=decode_blocks(groups, splits, width),
        keys=keys,
        splits=splits,
        read_bytes=4.0 * groups * keys * width,
        hot=hot,
        masked=masked,
    )[0]


def test_splits_are_those_of_recorded_grids() -> None:
    """(groups, keys) to splits, read off the grids on an H200."""
    for groups, keys, splits in (
        (2, 3468, 16),
        (4, 1256, 8),
        (4, 8150, 64),
        (12, 758, 4),
        (16, 1834, 8),
        (72, 16779, 1),
        (4, 19522, 64),
        (24, 462, 1),
    ):
        assert decode_splits(132, groups, keys) == splits


def test_one_block_by_hand() -> None:
    """One head of 128 keys: start, and one step of one block; memory does not count."""
    assert abs(seconds(groups=1, keys=128, width=64) - 4.5e-6) < 1e-9


def test_memory_sets_the_pace_of_large_ones() -> None:
    """A large batch streams K and V at the share of the bandwidth that it reaches."""
    moved = 4.0 * 4096 * 4096 * 64
    assert seconds(groups=4096, keys=4096, width=64, hot=False) > moved / (4.8e12 * 0.9)


def test_masks_cost_and_more_so_with_odd_rows() -> None:
    """Rows of the mask that are no multiple of eight are loaded element by element."""
    plain = seconds(keys=1024)
    assert plain < seconds(keys=1024, masked=True) < seconds(keys=1023, masked=True)


@given(st.integers(1, 2048), st.integers(1, 20000), st.sampled_from((64, 128, 256)))
def test_more_heads_and_cold_caches_never_help(groups: int, keys: int, width: int) -> None:
    """Twice the heads with as many splits take no less; nothing is faster cold."""
    assert seconds(groups, keys, width, hot=False) >= seconds(groups, keys, width)
    splits = decode_splits(132, groups, keys)
    one, two = (
        decode_s(
            RATES,
            width,
            132,
            4.8e12,
            blocks=decode_blocks(n, splits, width),
            keys=keys,
            splits=splits,
            read_bytes=4.0 * n * keys * width,
            hot=True,
            masked=False,
        )[0]
        for n in (groups, 2 * groups)
    )
    assert two >= one


def test_width_is_one_that_is_built() -> None:
    """Heads are padded to 64, 128 or 256."""
    assert [decode_width(d) for d in (32, 64, 96, 128, 192)] == [64, 64, 128, 128, 256]
    assert replace(RATES, start_s=0.0).start_s == 0.0
