"""Attention: FLOPs by hand, the limits of compute and memory, and every kind of device."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from matmul_work import dense, run

from gpuscope.cost.attention import attention_flops, tile_shape, unit_load
from gpuscope.cost.attention_decode import decode_splits
from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import device
from gpuscope.hardware.calibration import lent_to
from gpuscope.program.types import Op, TensorSpec

H200 = device("h200")
PEAK = H200.peak_flops_per_s("bfloat16")
BANDWIDTH = H200.memory_bandwidth_bytes_per_s


def qkv(batch=1, heads=8, sq=512, sk=None, dim=64, kv_heads=None, dtype="bfloat16"):
    sk = sq if sk is None else sk
    kv_heads = kv_heads or heads
    q = dense(batch, heads, sq, dim, dtype=dtype)
    k = dense(batch, kv_heads, sk, dim, dtype=dtype)
    return q, k, k


def forward(
    *,
    on="h200",
    causal=False,
    dropout_p=0.0,
    backend="flash",
    hot=False,
    settings=None,
    window=0,
    to_end=False,
    **shape,
) -> tuple[Kernel, ...]:
    q, k, v = qkv(**shape)
    logsumexp = dense(*q.shape[:-1], dtype="float32")
    return run(
        "gpuscope::attention",
        (q, k, v),
        (q, logsumexp),
        on=on,
        hot=hot,
        settings=settings,
        causal=causal,
        dropout_p=dropout_p,
        backend=backend,
        window=window,
        to_end=to_end,
    )


def backward(
    *, on="h200", causal=False, backend="flash", sequences=1.0, window=0, **shape
) -> tuple[Kernel, ...]:
    q, k, v = qkv(**shape)
    logsumexp = dense(*q.shape[:-1], dtype="float32")
    return run(
        "gpuscope::attention_backward",
        (q, q, k, v, q, logsumexp),
        (q, k, v),
        on=on,
        causal=causal,
        dropout_p=0.0,
        backend=backend,
        sequences=sequences,
    )


def seconds(kernels: tuple[Kernel, ...]) -> float:
    return sum(k.duration_s for k in kernels)


def flops(kernels: tuple[Kernel, ...]) -> float:
    return sum(k.flops for k in kernels)


def main(kernels: tuple[Kernel, ...]) -> Kernel:
    return max(kernels, key=lambda k: k.flops)


class TestFlops:
    def test_two_products_forward(self) -> None:
        """Scores and weighted sum: 2 * 2 * B * H * Sq * Sk * D."""
        expected = 4 * 2 * 8 * 512 * 384 * 64
        assert flops(forward(batch=2, sq=512, sk=384)) == expected
        q, k, v = qkv(batch=2, sq=512, sk=384)
        assert attention_flops(q, k, v, causal=False) == expected

    def test_five_products_backward(self) -> None:
        assert flops(backward(batch=2)) == 10 * 2 * 8 * 512 * 512 * 64

    def test_a_causal_mask_leaves_the_lower_triangle(self) -> None:
        pairs = 512 * 513 / 2
        assert flops(forward(causal=True)) == 4 * 8 * pairs * 64
        assert flops(backward(causal=True)) == 10 * 8 * pairs * 64

    def test_shared_heads_compute_as_much(self) -> None:
        assert flops(forward(kv_heads=2)) == flops(forward())
        assert flops(backward(kv_heads=2)) == flops(backward())

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

    def test_it_takes_longer_than_the_other_corner_and_less_than_no_mask(self) -> None:
        args = {"heads": 32, "sq": 2048, "sk": 8192, "backend": "flash_only", "on": "h200"}
        late = seconds(forward(causal=True, to_end=True, **args))
        assert seconds(forward(causal=True, **args)) < late < seconds(forward(**args))

    def test_no_other_kernel_stands_in(self) -> None:
        args = {"sq": 2048, "sk": 8192, "causal": True, "backend": "flash", "on": "h200"}
        assert "flash" in main(forward(to_end=True, **args)).name
        assert "cudnn" in main(forward(**args)).name


class TestSequencesInARow:
    """Several sequences that lie in a row one after the other cost what as many rows would."""

    @pytest.mark.parametrize("causal", [True, False])
    def test_equal_ones_cost_what_a_batch_of_them_does(self, causal) -> None:
        apart = backward(batch=8, sq=512, causal=causal, backend="flash_only")
        in_a_row = backward(sq=8 * 512, sequences=8.0, causal=causal, backend="flash_only")
        assert flops(in_a_row) == pytest.approx(flops(apart))
        assert seconds(in_a_row) == pytest.approx(seconds(apart))

    def test_a_share_of_a_sequence_counts(self) -> None:
        q, k, v = qkv(sq=2048)
        few, more = (attention_flops(q, k, v, True, n) for n in (1.2, 1.8))
        assert few == pytest.approx(1.5 * more, rel=1e-3)


class TestComputeLimit:
    shape = {"batch": 8, "heads": 32, "sq": 4096, "dim": 128}  # noqa: RUF012

    def test_a_long_sequence_is_limited_by_tensor_cores(self) -> None:
        kernels = forward(**self.shape)
        kernel = main(kernels)
        assert kernel.limiter == "tensor_core"
        reached = flops(kernels) / seconds(kernels) / PEAK
        assert 0.5 < reached < 0.85  # FlashAttention-3 and cuDNN reach 60 to 75 % on Hopper

    def test_backward_takes_two_and_a_half_times_the_work_and_more_time(self) -> None:
        assert 2.5 < seconds(backward(**self.shape)) / seconds(forward(**self.shape)) < 4.5

    def test_a_causal_mask_saves_nearly_half(self) -> None:
        saved = seconds(forward(**self.shape, causal=True)) / seconds(forward(**self.shape))
        assert 0.5 < saved < 0.62

    def test_nothing_is_faster_than_the_peak(self) -> None:
        for sq in (128, 512, 2048, 8192):
            for dim in (64, 128, 256):
                kernels = forward(batch=4, sq=sq, dim=dim)
                assert seconds(kernels) > flops(kernels) / PEAK

    def test_a_faster_device_is_faster(self) -> None:
        faster = H200.replace(compute_units=160)
        assert seconds(forward(**self.shape, on=faster)) < seconds(forward(**self.shape))


class TestMemoryLimit:
    def test_decoding_reads_keys_and_values_once(self) -> None:
        shape = {"batch": 64, "heads": 32, "kv_heads": 8, "sq": 1, "sk": 8192, "dim": 128}
        kernels = forward(**shape)
        cache = 2 * 64 * 8 * 8192 * 128 * 2
        kernel = kernels[0]
        assert kernel.limiter == "memory"
        assert kernel.read_bytes == pytest.approx(cache, rel=0.01)
        assert 0.6 < cache / seconds(kernels) / BANDWIDTH < 1

    def test_more_bandwidth_speeds_decoding_up(self) -> None:
        shape = {"batch": 64, "heads": 32, "kv_heads": 8, "sq": 1, "sk": 8192, "dim": 128}
        doubled = H200.replace(memory_bandwidth_bytes_per_s=2 * BANDWIDTH)
        assert seconds(forward(**shape, on=doubled)) < 0.7 * seconds(forward(**shape))

    def test_a_short_cache_costs_latency(self) -> None:
        kernel = forward(sq=1, sk=64)[0]
        assert kernel.limiter == "latency"
        assert kernel.duration_s < 12e-6

    def test_shared_heads_read_less(self) -> None:
        shape = {"batch": 64, "heads": 32, "sq": 1, "sk": 8192, "dim": 128}
        assert seconds(forward(**shape, kv_heads=8)) < 0.5 * seconds(forward(**shape))

    def test_a_cache_that_is_hot_is_read_faster(self) -> None:
        shape = {"batch": 1, "heads": 8, "sq": 1, "sk": 4096, "dim": 128}
        assert seconds(forward(**shape, hot=True)) < seconds(forward(**shape))

    def test_few_groups_split_the_keys_and_combine(self) -> None:
        few = forward(batch=1, heads=8, sq=1, sk=16384, dim=128)
        assert [k.name for k in few][-1] == "attention_combine"
        many = forward(batch=64, heads=32, sq=1, sk=16384, dim=128)
        assert len(many) == 1

    @pytest.mark.parametrize("groups", [1, 8, 33, 132, 500])
    @pytest.mark.parametrize("sk", [1, 512, 4096, 100_000])
    def test_splits_are_powers_of_two_of_at_least_128_keys(self, groups, sk) -> None:
        splits = decode_splits(132, groups, sk)
        assert splits >= 1
        assert splits == 1 or sk // splits >= 64
        assert splits == 1 or groups * splits <= 2 * 132


class TestMonotone:
    @pytest.mark.parametrize("direction", [forward, backward])
    @pytest.mark.parametrize("causal", [False, True])
    def test_in_every_dimension(self, direction, causal) -> None:
        base = {"batch": 2, "heads": 16, "sq": 1024, "dim": 64}
        for key, values in {
            "batch": (2, 4, 16),
            "heads": (16, 32, 64),
            "sq": (1024, 2048, 8192),
            "dim": (64, 128, 256),
        }.items():
            times = [seconds(direction(**{**base, key: value}, causal=causal)) for value in values]
            assert times == sorted(times), key

    def test_in_the_length_of_the_cache(self) -> None:
        times = [
            seconds(forward(batch=8, sq=1, sk=sk, dim=128)) for sk in (64, 512, 4096, 32768, 131072)
        ]
        assert times == sorted(times)

    def test_long_sequences_grow_quadratically(self) -> None:
        one, two = (seconds(forward(batch=4, heads=32, sq=s, dim=128)) for s in (8192, 16384))
        assert two / one == pytest.approx(4, rel=0.05)


class TestWhoseKernel:
    def test_hopper_takes_cudnn_for_half_precision(self) -> None:
        assert main(forward()).name.startswith("cudnn")

    def test_ampere_takes_flash(self) -> None:
        assert main(forward(on="a100-80gb")).name.startswith("flash")

    def test_single_precision_takes_the_memory_efficient_one(self) -> None:
        kernel = main(forward(dtype="float32", backend="efficient"))
        assert kernel.name.startswith("efficient")
        assert kernel.dtype == "float32"
        # With tf32 allowed an H200 took as long: 800 us for 64 heads of 1,024 x 128.
        tf32 = main(
            forward(
                batch=4,
                heads=16,
                sq=1024,
                dim=128,
                dtype="float32",
                backend="efficient",
                settings={"tf32_matmul": True},
            )
        )
        assert tf32.dtype == "float32"
        assert tf32.duration_s == pytest.approx(800e-6, rel=0.1)

    def test_what_the_user_chose_is_not_replaced_by_cudnn(self) -> None:
        shape = {"batch": 4, "heads": 16, "sq": 1024, "dim": 64, "dtype": "bfloat16"}
        names = {
            b: main(forward(**shape, backend=b)).name.partition("_")[0]
            for b in ("flash", "efficient", "flash_only", "efficient_only")
        }
        assert names == {
            "flash": "cudnn",
            "efficient": "cudnn",
            "flash_only": "flash",
            "efficient_only": "efficient",
        }
        # Recorded: 147 us, three times what cuDNN's kernel takes.
        assert seconds(forward(**shape, backend="efficient_only")) == pytest.approx(147e-6, rel=0.1)

    def test_dropout_costs_more(self) -> None:
        shape = {"batch": 8, "heads": 32, "sq": 4096, "dim": 64}
        assert seconds(forward(**shape, dropout_p=0.1)) > seconds(forward(**shape))

    def test_launches_of_a_backward_pass(self) -> None:
        """As recorded on an H200: memset, row sums, the main kernel, conversion of dQ."""
        assert len(backward()) == 4
        assert len(backward(kv_heads=2)) == 6  # shared heads add their sums up
        single = [k.name for k in backward(dtype="float32", backend="efficient")]
        assert single[:3] == ["attention_dot_multiply", "attention_dot_sum", "attention_dot_copy"]
        assert single[-1].startswith("efficient_bwd")


@pytest.mark.parametrize("name", ["a100-80gb", "mi300x", "tpu-v5p", "rtx-4090", "apple-m2-max"])
@pytest.mark.parametrize("direction", [forward, backward])
def test_other_devices(name, direction) -> None:
    target = device(name)
    dtype = "bfloat16" if target.supports("bfloat16") else "float16"
    shape = {"batch": 8, "heads": 32, "sq": 4096, "dim": 128, "dtype": dtype}
    kernels = direction(on=target, **shape)
    reached = flops(kernels) / seconds(kernels) / target.peak_flops_per_s(dtype)
    assert 0.1 < reached < 1
    assert all(k.origin == "estimated" for k in kernels)
    decode = forward(on=target, batch=8, heads=32, sq=1, sk=8192, dim=128, dtype=dtype)
    cache = 2 * 8 * 32 * 8192 * 128 * 2
    assert 0.25 < cache / seconds(decode) / target.memory_bandwidth_bytes_per_s < 1


def test_a_dtype_that_the_device_lacks() -> None:
    with pytest.raises(UnsupportedError, match=r"float8|fp8"):
        forward(on="a100-80gb", dtype="float8_e4m3fn")


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


class TestImplementations:
    @pytest.mark.parametrize("dim", [64, 128, 256, 320, 512, 1024])
    @pytest.mark.parametrize("backend", ["flash", "efficient"])
    def test_no_width_of_head_beats_the_peak(self, dim: int, backend: str) -> None:
        for made in (forward, backward):
            kernels = made(heads=32, sq=4096, dim=dim, backend=backend)
            assert flops(kernels) / seconds(kernels) < PEAK

    def test_wide_heads_go_through_the_memory_efficient_kernel(self) -> None:
        assert main(forward(dim=256)).name.startswith("cudnn")
        assert main(forward(dim=257)).name.startswith("efficient")
        assert main(forward(on="a100", dim=512)).name.startswith("efficient")

    def test_single_precision_is_not_the_tensor_cores(self) -> None:
        kernels = forward(sq=4096, heads=32, dim=128, dtype="float32", backend="efficient")
        assert main(kernels).limiter == "compute"

    def test_the_older_kernels_keep_their_order_on_hopper(self) -> None:
        q, k, v = qkv(heads=32, sq=8192, dim=128)
        taken = [
            seconds(run("gpuscope::attention", (q, k, v), (q,), causal=False, implementation=name))
            for name in ("cudnn", "flash", "efficient")
        ]
        assert taken == sorted(taken)


@pytest.mark.parametrize("backend", ["flash_only", "efficient_only"])
def test_kernels_of_older_devices_reach_the_same_share_of_every_hopper(backend: str) -> None:
    """One die: an H100 cannot run them quicker than the H200 that they were measured on."""
    shape = {"heads": 16, "sq": 16384, "dim": 128, "causal": True, "backend": backend}
    for call in (forward, backward):
        ratio = seconds(call(on="h100", **shape)) / seconds(call(on="h200", **shape))
        assert 0.9 < ratio < 1.15
    # Dao 2023, figure 7: 320 TFLOP/s forward and backward on an H100, at most.
    both = seconds(forward(on="h100", **shape)) + seconds(backward(on="h100", **shape))
    assert 7 * 16 * 16384**2 * 128 / both < 350e12


def test_large_cores_take_large_tiles() -> None:
    """A TPU has one core or two: 2 us a tile of 64 rows would be most of the time."""
    shape = {"batch": 2, "heads": 32, "sq": 8192, "dim": 128, "causal": True, "on": "tpu-v6e"}
    useful = 2 * 32 * 8192**2 * 128 * 2
    peak = device("tpu-v6e").peak_flops_per_s("bfloat16")
    assert 0.3 < useful / seconds(forward(**shape)) / peak < 0.7


def test_a_head_fills_part_of_a_larger_systolic_array() -> None:
    """128 of 256 places of a v6e's array; a head of 256 fills it."""
    peak = device("tpu-v6e").peak_flops_per_s("bfloat16")

    def share(dim: int) -> float:
        shape = {"batch": 2, "heads": 16, "sq": 8192, "dim": dim, "causal": False}
        return 4 * 2 * 16 * 8192**2 * dim / seconds(forward(on="tpu-v6e", **shape)) / peak

    assert share(128) < 0.5
    assert share(256) > 1.2 * share(128)


def test_ampere_s_kernel_keeps_its_share_where_its_products_are_still_the_ones() -> None:
    """Capability 12 has the products of 8: what the kernel reaches on Hopper is not lent."""
    q, k, v = qkv(heads=16, sq=16384, dim=128)
    taken = {}
    for capability in ((8, 0), (9, 0), (10, 0), (12, 0)):
        on = replace(H200, compute_capability=capability)
        args = {"backend": "flash_only"}
        op = Op(0, "gpuscope::attention", inputs=(q, k, v), outputs=(q,), args=args)
        model = model_for(op.name)
        assert model is not None
        work = Work(op, on, Constants(lent_to("stranger")), (), (False,) * 3)
        taken[capability] = seconds(model(work))
    assert taken[8, 0] == taken[12, 0] < 0.75 * taken[9, 0]
    assert taken[9, 0] == taken[10, 0]


class TestWindow:
    LONG: ClassVar = {"batch": 1, "heads": 32, "sq": 8192, "dim": 128, "causal": True}

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

    @pytest.mark.parametrize("direction", [forward, backward])
    def test_one_as_long_as_the_sequence_hides_nothing(self, direction) -> None:
        whole, near = direction(**self.LONG), direction(**self.LONG, window=8192)
        assert seconds(near) == seconds(whole)
        assert flops(near) == flops(whole)

    @pytest.mark.parametrize("direction", [forward, backward])
    def test_the_shorter_the_quicker(self, direction) -> None:
        taken = [seconds(direction(**self.LONG, window=w)) for w in (8192, 4096, 1024, 128)]
        assert taken == sorted(taken, reverse=True)
        # Nothing takes less than its memory: q, k, v and the result are read and written.
        assert taken[-1] > 4 * 32 * 8192 * 128 * 2 / BANDWIDTH

    @pytest.mark.parametrize("by_key", [False, True])
    def test_tiles_without_a_pair_are_not_walked(self, by_key) -> None:
        # A window of a tile: eight rows of tiles meet two each, but one at the end of the sequence.
        _, walked, total = unit_load(1, 1024, 1024, True, 128, 128, 132, by_key=by_key, window=128)
        assert (walked, total) == (2, 15)

    def test_work_grows_evenly_with_the_sequence(self) -> None:
        long, twice = (
            flops(forward(batch=1, heads=8, sq=sq, dim=64, causal=True, window=128))
            for sq in (8192, 16384)
        )
        assert twice / long == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize(
    ("batch", "heads", "sq", "sk", "dim", "measured_s"),
    [(49, 12, 26, 26, 16, 17.7e-6), (48, 1, 722, 36, 64, 22.4e-6), (80, 12, 70, 70, 32, 44.4e-6)],
)
def test_short_gradients_recorded_on_an_h200(
    batch: int, heads: int, sq: int, sk: int, dim: int, measured_s: float
) -> None:
    """cuDNN's kernel alone: a block owns 128 keys, of which these have few, and walks 64 queries
    a step."""
    kernels = backward(backend="cudnn", batch=batch, heads=heads, sq=sq, sk=sk, dim=dim)
    main = next(k for k in kernels if k.name.startswith("cudnn_bwd"))
    assert main.duration_s == pytest.approx(measured_s, rel=0.4)
