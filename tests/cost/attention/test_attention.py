"""Attention's kernels: the limits of compute and memory, and every kind of device."""

from __future__ import annotations

from typing import ClassVar

import pytest
from attention_work import backward, flops, forward, main, qkv, seconds

from gpuscope.cost.attention.decode import decode_splits
from gpuscope.cost.attention.tiles import attention_flops
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import device

H200 = device("h200")
PEAK = H200.peak_flops_per_s("bfloat16")
BANDWIDTH = H200.memory_bandwidth_bytes_per_s


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


def test_a_mask_to_the_last_key_takes_longer_than_to_the_first_and_less_than_none() -> None:
    args = {"heads": 32, "sq": 2048, "sk": 8192, "backend": "flash_only", "on": "h200"}
    late = seconds(forward(causal=True, to_end=True, **args))
    assert seconds(forward(causal=True, **args)) < late < seconds(forward(**args))


@pytest.mark.parametrize("causal", [True, False])
def test_equal_sequences_in_a_row_cost_what_a_batch_of_them_does(causal) -> None:
    apart = backward(batch=8, sq=512, causal=causal, backend="flash_only")
    in_a_row = backward(sq=8 * 512, sequences=8.0, causal=causal, backend="flash_only")
    assert flops(in_a_row) == pytest.approx(flops(apart))
    assert seconds(in_a_row) == pytest.approx(seconds(apart))


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


def test_dropout_costs_more() -> None:
    shape = {"batch": 8, "heads": 32, "sq": 4096, "dim": 64}
    assert seconds(forward(**shape, dropout_p=0.1)) > seconds(forward(**shape))


def test_launches_of_a_backward_pass() -> None:
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


def test_large_cores_take_large_tiles() -> None:
    """A TPU has one core or two: 2 us a tile of 64 rows would be most of the time."""
    shape = {"batch": 2, "heads": 32, "sq": 8192, "dim": 128, "causal": True, "on": "tpu-v6e"}
    useful = 2 * 32 * 8192**2 * 128 * 2
    peak = device("tpu-v6e").peak_flops_per_s("bfloat16")
    assert 0.3 < useful / seconds(forward(**shape)) / peak < 0.7


class TestWindow:
    LONG: ClassVar = {"batch": 1, "heads": 32, "sq": 8192, "dim": 128, "causal": True}

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
