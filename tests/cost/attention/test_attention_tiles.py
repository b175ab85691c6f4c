"""Attention's pairs and tiles: FLOPs by hand, tiles walked by hand."""

from __future__ import annotations

import pytest
from attention_work import qkv
from matmul_work import dense

from gpuscope.cost.attention.tiles import attention_flops, tile_shape, unit_load
from gpuscope.program.types import TensorSpec


class TestFlops:
    def test_values_of_another_width(self) -> None:
        """Latent attention: 192 wide keys, 128 wide values."""
        q = dense(1, 4, 256, 192)
        v = dense(1, 4, 256, 128)
        expected = 2 * 4 * 256 * 256 * (192 + 128)
        assert attention_flops(q, q, v, causal=False) == expected

    def test_one_query_sees_all_keys_causal_or_not(self) -> None:
        q, k, v = qkv(sq=1, sk=1000)
        assert attention_flops(q, k, v, True) == attention_flops(q, k, v, False)

    def test_leading_dimensions_multiply(self) -> None:
        three = TensorSpec((8, 512, 64), (512 * 64, 64, 1), "bfloat16")
        assert attention_flops(three, three, three, False) == 4 * 8 * 512 * 512 * 64

    def test_a_share_of_a_sequence_counts(self) -> None:
        q, k, v = qkv(sq=2048)
        few, more = (attention_flops(q, k, v, True, n) for n in (1.2, 1.8))
        assert few == pytest.approx(1.5 * more, rel=1e-3)


class TestAMaskThatEndsAtTheLastKey:
    """The later pieces of a long text: what came before is seen by all, the piece's own by half."""

    def test_pairs_are_those_before_and_a_triangle(self) -> None:
        pairs = 512 * 1536 + 512 * 513 / 2
        q, k, v = qkv(sq=512, sk=2048)
        assert attention_flops(q, k, v, True, ahead=1536) == 4 * 8 * pairs * 64

    def test_a_window_leaves_of_them_the_last(self) -> None:
        q, k, v = qkv(sq=512, sk=2048)
        assert attention_flops(q, k, v, True, 1.0, 256, 1536) == 4 * 8 * 512 * 256 * 64
        # Query tiles of 128 begin at 1,536: 255 keys before the first take two tiles more.
        _, walked, total = unit_load(1, 512, 2048, True, 128, 128, 132, window=256, ahead=1536)
        assert (walked, total) == (3, 12)
        _, _, by_key = unit_load(
            1, 512, 2048, True, 128, 128, 132, by_key=True, window=256, ahead=1536
        )
        # Of 16 key tiles the first 10 are seen by none (a step at least), then 1, 2, 3, 3, 2, 1.
        assert by_key == 10 + 1 + 2 + 3 + 3 + 2 + 1

    def test_pieces_compute_what_the_whole_does(self) -> None:
        q, k, v = qkv(sq=2048)
        whole = attention_flops(q, k, v, True)
        pieces = (qkv(sq=512, sk=512 * (n + 1)) for n in range(4))
        assert sum(
            attention_flops(*piece, True, ahead=512 * n) for n, piece in enumerate(pieces)
        ) == pytest.approx(whole)

    def test_blocks_of_queries_walk_what_is_before_them_too(self) -> None:
        # Four query tiles walk 12 key tiles and 1, 2, 3 or 4 of their own.
        _, walked, total = unit_load(1, 512, 2048, True, 128, 128, 132, ahead=1536)
        assert (walked, total) == (16, 4 * 12 + 10)

    def test_blocks_of_keys_before_are_walked_by_all_queries(self) -> None:
        _, walked, total = unit_load(1, 512, 2048, True, 128, 128, 132, by_key=True, ahead=1536)
        assert (walked, total) == (4, 12 * 4 + 10)


class TestWindow:
    def test_pairs_by_hand(self) -> None:
        # Of 6 queries with 3 keys each at most: 1 + 2 + 3 + 3 + 3 + 3.
        q, k, v = qkv(heads=1, sq=6, dim=1)
        assert attention_flops(q, k, v, True, window=3) == 2 * 15 * 2

    def test_of_several_sequences_each_has_its_own(self) -> None:
        q, k, v = qkv(heads=1, sq=12, dim=1)
        assert attention_flops(q, k, v, True, 2.0, 3) == 2 * 2 * 15 * 2

    def test_keys_before_the_queries_are_seen_through_it(self) -> None:
        q, k, v = qkv(heads=1, sq=1, sk=100, dim=1)
        assert attention_flops(q, k, v, True, window=3) == 2 * 3 * 2

    @pytest.mark.parametrize("by_key", [False, True])
    def test_tiles_without_a_pair_are_not_walked(self, by_key) -> None:
        # A window of a tile: eight rows of tiles meet two each, but one at the end of the sequence.
        _, walked, total = unit_load(1, 1024, 1024, True, 128, 128, 132, by_key=by_key, window=128)
        assert (walked, total) == (2, 15)


class TestLoad:
    def test_one_wave(self) -> None:
        # 132 tiles of 128 queries on 132 units: each owns one and walks four key tiles.
        assert unit_load(33, 512, 512, False, 128, 128, 132) == (1, 4, 33 * 4 * 4)

    def test_one_tile_too_many_makes_a_second_wave(self) -> None:
        own, walked, _ = unit_load(133, 128, 512, False, 128, 128, 132)
        assert (own, walked) == (2, 8)

    def test_causal_tiles_are_short_and_long(self) -> None:
        # Four query tiles walk 1, 2, 3 and 4 key tiles.
        own, walked, total = unit_load(1, 512, 512, True, 128, 128, 132)
        assert (own, walked, total) == (1, 4, 10)

    def test_causal_by_key_walks_the_other_way(self) -> None:
        _, walked, total = unit_load(1, 512, 512, True, 128, 128, 132, by_key=True)
        assert (walked, total) == (4, 10)

    @pytest.mark.parametrize("backend", ["cudnn", "flash", "efficient"])
    @pytest.mark.parametrize("dim", [32, 64, 128, 256])
    @pytest.mark.parametrize("backward_", [False, True])
    def test_tiles_are_sensible(self, backend, dim, backward_) -> None:
        tile_q, tile_k, by_key = tile_shape(backend, dim, backward_)
        assert 32 <= tile_q <= 128
        assert 32 <= tile_k <= 128
        assert by_key is backward_
