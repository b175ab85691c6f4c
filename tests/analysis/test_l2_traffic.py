"""Bytes from L2: the blocking argument by hand, and what is not known."""

from __future__ import annotations

import pytest
from builders import H200, kernel, matmul

from gpuscope.analysis.l2_traffic import is_tiled, l2_bytes


def test_a_product_draws_its_operands_once_a_tile() -> None:
    m, n, k = 1024, 2048, 512
    one = matmul(
        10.0,
        flops=2.0 * m * n * k,
        tile=(128, 256, 32),
        grid=64,
        read_bytes=0.0,
        written_bytes=2.0 * m * n,
        least_bytes=2.0 * (m * k + k * n + m * n),
    )
    tiles = (m // 128) * (n // 256)
    by_hand = tiles * (128 + 256) * k * 2.0 + 2.0 * m * n
    assert is_tiled(one)
    assert l2_bytes(one) == pytest.approx(by_hand)
    # No tile of 32 deep is shared by multicast; the ones of 64 are, by two blocks.
    assert l2_bytes(one, H200) == pytest.approx(by_hand)


def test_a_cluster_shares_the_longer_side() -> None:
    one = matmul(10.0, flops=2.0**31, tile=(128, 256, 64), least_bytes=0.0, read_bytes=0.0)
    drawn = 2.0**31 * (128 + 256 - 128) / (2 * 128 * 256) * 2.0
    assert l2_bytes(one, H200) == pytest.approx(drawn)


def test_other_kernels_draw_at_least_what_they_touch() -> None:
    one = kernel(5.0, read_bytes=3.0, written_bytes=4.0, least_bytes=9.0)
    assert l2_bytes(one) == 9.0
    assert not is_tiled(one)


def test_copies_collectives_and_the_unknown_have_none() -> None:
    assert l2_bytes(kernel(5.0, kind="transfer", least_bytes=9.0)) is None
    assert l2_bytes(kernel(5.0, kind="collective", read_bytes=9.0)) is None
    assert l2_bytes(kernel(5.0)) is None


def test_smaller_tiles_draw_more() -> None:
    large = matmul(1.0, tile=(128, 256, 32))
    small = matmul(1.0, tile=(64, 64, 32))
    assert (l2_bytes(small) or 0.0) > (l2_bytes(large) or 0.0) * 2
