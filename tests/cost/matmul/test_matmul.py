from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matmul_work import dense, mm, mm_time_s, run, turned

from gpuscope.cost.matmul.gemm import machine_for, reduction_s
from gpuscope.cost.matmul.model import alignment_bytes, layout_of
from gpuscope.cost.matmul.types import Problem
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Calibration, calibration_for, device
from gpuscope.program.types import TensorSpec

SAMPLE = Path(__file__).parents[1] / "data" / "matmul_h200.csv"
SIZES = st.integers(1, 64).map(lambda n: n * 128)


def test_flops_are_two_per_multiply_add() -> None:
    assert mm(100, 200, 300).flops == 2 * 100 * 200 * 300
    kernels = run("aten::bmm", (dense(4, 16, 32), dense(4, 32, 8)), (dense(4, 16, 8),))
    assert sum(k.flops for k in kernels) == 2 * 4 * 16 * 32 * 8


@pytest.mark.parametrize("on", ["h200", "a100", "l4", "rtx-4090", "mi300x", "v100", "m2-max"])
def test_large_products_approach_the_peak_and_never_pass_it(on: str) -> None:
    kernel = mm(8192, 8192, 8192, dtype="float16", on=on)
    peak = device(on).peak_flops_per_s("float16")
    share = kernel.flops / kernel.duration_s / peak
    assert 0.5 < share < 1.0
    assert kernel.limiter in ("tensor_core", "compute")


@pytest.mark.parametrize("on", ["h200", "a100", "rtx-4090", "mi300x", "tpu-v5p"])
def test_one_row_is_bound_by_reading_the_weight(on: str) -> None:
    kernel = mm(1, 65536, 8192, on=on)
    weight_bytes = 65536 * 8192 * 2
    rate = weight_bytes / kernel.duration_s / device(on).memory_bandwidth_bytes_per_s
    assert 0.5 < rate < 1.0
    assert kernel.limiter == "memory"
    assert kernel.read_bytes >= weight_bytes


def test_a_tiny_product_costs_the_launch_floor() -> None:
    assert 1.5e-6 < mm(16, 16, 16).duration_s < 4e-6
    assert mm(16, 16, 16).limiter == "latency"


@example(m=128, n=128, k=2816, side="k")
@settings(max_examples=40, deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES, side=st.sampled_from("mnk"))
def test_twice_the_size_is_never_much_faster(m: int, n: int, k: int, side: str) -> None:
    """All kernels of the product: a longer sum may be split, and then has a second one."""
    more = {"m": m, "n": n, "k": k}
    more[side] *= 2
    assert mm_time_s(**more) > 0.98 * mm_time_s(m, n, k)


@example(m=128, n=128, k=4096)
@settings(max_examples=30, deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES)
def test_a_better_device_is_never_slower(m: int, n: int, k: int) -> None:
    base = device("h200")
    now = mm_time_s(m, n, k, on=base)
    for change in (
        {"compute_units": 160},
        {"memory_bandwidth_bytes_per_s": 8e12},
        {"clock_hz": 2.4e9},
        {"l2_bytes": 200_000_000},
    ):
        # A larger L2 also holds more unwritten data of earlier kernels: hence its margin.
        margin = 1.04 if "l2_bytes" in change else 1.01
        assert mm_time_s(m, n, k, on=base.replace(**change)) <= now * margin, change


def test_one_tile_too_many_costs_another_round() -> None:
    """108 blocks of 128 x 256 fill an A100 once; one row of tiles more needs a second round."""
    full = mm(128 * 12, 256 * 9, 8192, on="a100")
    over = mm(128 * 13, 256 * 9, 8192, on="a100")
    assert full.waves == 1.0
    assert over.flops / full.flops == pytest.approx(13 / 12)
    assert over.duration_s / full.duration_s > 1.3


def test_operands_in_cache_are_not_read_from_memory() -> None:
    cold, hot = mm(64, 4096, 4096), mm(64, 4096, 4096, hot=True)
    assert hot.duration_s < cold.duration_s
    assert cold.read_bytes >= 4096 * 4096 * 2
    assert hot.read_bytes == 0


def test_deep_and_narrow_products_split_the_depth() -> None:
    kernels = run("aten::mm", (dense(64, 65536), turned(dense(64, 65536))), (dense(64, 64),))
    assert [k.name for k in kernels][-1] == "split_k_reduce"
    assert "split" in kernels[-2].note
    assert sum(k.flops for k in kernels) == 2 * 64 * 64 * 65536


def test_tf32_needs_the_switch_and_the_hardware() -> None:
    plain = mm(4096, 4096, 4096, dtype="float32")
    fast = mm(4096, 4096, 4096, dtype="float32", settings={"tf32_matmul": True})
    assert (plain.dtype, fast.dtype) == ("float32", "tf32")
    assert plain.duration_s > 4 * fast.duration_s
    old = mm(4096, 4096, 4096, dtype="float32", on="v100", settings={"tf32_matmul": True})
    assert old.dtype == "float32"


@pytest.mark.parametrize(
    ("m", "n", "k", "layout", "measured_s"),
    [
        (4096, 1024, 4096, "NT", 86.3e-6),
        (4096, 14336, 4096, "TN", 1805e-6),
        (1536, 512, 1568, "TN", 24.4e-6),
        (256, 768, 73728, "TN", 160e-6),
        (64, 3072, 768, "NN", 7.7e-6),
        (1024, 128, 128, "NN", 3.5e-6),
    ],
)
def test_tf32_has_kernels_of_two_generations(
    m: int, n: int, k: int, layout: str, measured_s: float
) -> None:
    """Recorded on an H200: the first two by "sm90_xmma", the others by "cutlass_80_tensorop"."""
    a = dense(m, k, dtype="float32") if layout[0] == "N" else turned(dense(k, m, dtype="float32"))
    b = dense(k, n, dtype="float32") if layout[1] == "N" else turned(dense(n, k, dtype="float32"))
    on = {"tf32_matmul": True}
    kernels = run("aten::mm", (a, b), (dense(m, n, dtype="float32"),), settings=on, hot=True)
    assert sum(k.duration_s for k in kernels) == pytest.approx(measured_s, rel=0.2)


def test_gradients_of_weights_leave_hoppers_own_tf32_kernels() -> None:
    """Those want both operands dense along K: 4096 x 14336 x 4096 took 1,805 us, 1,178 turned."""
    both = {
        layout: mm(4096, 14336, 4096, "float32", layout=layout, settings={"tf32_matmul": True})
        for layout in ("NT", "TN")
    }
    assert both["TN"].duration_s > 1.5 * both["NT"].duration_s


@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "layout", "measured_s"),
    [
        (1, 1249, 575, 189, "TN", 28.0e-6),
        (131, 360, 105, 228, "NT", 227e-6),
        (67, 297, 330, 29, "NN", 57.9e-6),
    ],
)
def test_complex_numbers_take_four_multiply_adds_each(
    batch: int, m: int, n: int, k: int, layout: str, measured_s: float
) -> None:
    """complex64 on an H200, by "sm80_xmma_gemm_cf32cf32_f32f32_cf32"."""
    kind = "complex64"
    a, b = dense(batch, m, k, dtype=kind), dense(batch, k, n, dtype=kind)
    a = a if layout[0] == "N" else turned(dense(batch, k, m, dtype=kind))
    b = b if layout[1] == "N" else turned(dense(batch, n, k, dtype=kind))
    kernels = run("aten::bmm", (a, b), (dense(batch, m, n, dtype=kind),), hot=True)
    assert sum(kernel.flops for kernel in kernels) == 8 * batch * m * n * k
    assert sum(kernel.duration_s for kernel in kernels) == pytest.approx(measured_s, rel=0.3)


def test_batches_of_odd_rows_in_tf32_run_on_the_vector_lanes() -> None:
    """2,048 of 49 x 32 x 49 took 21.7 us on an H200 by FFMA kernels; one product has none."""
    on = {"tf32_matmul": True}

    def made(batch: int) -> tuple[Kernel, ...]:
        a, b = dense(batch, 49, 49, dtype="float32"), turned(dense(batch, 32, 49, dtype="float32"))
        out = dense(batch, 49, 32, dtype="float32")
        return run("aten::bmm", (a, b), (out,), settings=on, hot=True)

    assert sum(k.duration_s for k in made(2048)) == pytest.approx(21.7e-6, rel=0.3)
    assert made(2048)[0].tile[2] == 16  # 8 floats a step
    assert made(1)[0].tile[2] > 16


@pytest.mark.parametrize(
    ("m", "n", "k", "measured_s"),
    [
        (46, 72, 96, 5.7e-6),
        (65, 1432, 832, 9.9e-6),
        (71, 120, 1504, 12.2e-6),
        (1720, 2120, 2416, 19.6e-6),
        (991, 144, 4864, 12.0e-6),
        (241, 512, 5376, 13.0e-6),
    ],
)
def test_int8_has_one_tile_on_hopper_and_older_kernels_for_whole_columns(
    m: int, n: int, k: int, measured_s: float
) -> None:
    """Recorded on an H200: the first four by "sm90_xmma" of 256 x 128, whose main loop a small
    product walks as well; the others, of a multiple of 16 columns, by "cutlass_80"."""
    a, b = dense(m, k, dtype="int8"), turned(dense(n, k, dtype="int8"))
    kernels = run("aten::_int_mm", (a, b), (dense(m, n, dtype="int32"),), hot=True)
    assert sum(kernel.duration_s for kernel in kernels) == pytest.approx(measured_s, rel=0.2)
    assert (kernels[-1].tile[0] * kernels[-1].tile[1] == 256 * 128) == bool(n % 16)


@pytest.mark.parametrize(
    ("m", "n", "k", "measured_s"),
    [
        (1024, 1024, 1024, 5.76e-6),
        (512, 14336, 4096, 84.8e-6),
        (4096, 4096, 4096, 156.2e-6),
        (8192, 8192, 8192, 1137e-6),
        (8192, 4096, 14336, 967e-6),
    ],
)
def test_large_products_of_int8_reach_half_of_the_peak(
    m: int, n: int, k: int, measured_s: float
) -> None:
    """Recorded on an H200, whose kernels for them are those of compute capability 8.0."""
    a, b = dense(m, k, dtype="int8"), turned(dense(n, k, dtype="int8"))
    kernels = run("aten::_int_mm", (a, b), (dense(m, n, dtype="int32"),), hot=True)
    assert sum(kernel.duration_s for kernel in kernels) == pytest.approx(measured_s, rel=0.12)


def test_a_missing_dtype_names_those_there_are() -> None:
    with pytest.raises(UnsupportedError, match="float16"):
        mm(128, 128, 128, dtype="float8_e4m3fn", on="a100")
    with pytest.raises(UnsupportedError, match="V100"):
        mm(128, 128, 128, dtype="bfloat16", on="v100")


def test_float32_runs_as_six_passes_where_only_bfloat16_exists() -> None:
    one = mm(8192, 8192, 8192, on="tpu-v5p")
    six = mm(8192, 8192, 8192, dtype="float32", on="tpu-v5p")
    assert 3 < six.compute_s / one.compute_s < 7


def test_odd_rows_are_slow() -> None:
    even, odd = mm(4096, 50304, 768), mm(4096, 50257, 768)
    assert odd.duration_s > 3 * even.duration_s


@pytest.mark.parametrize(
    ("dtype", "batch", "m", "n", "measured_s"),
    [
        ("bfloat16", 10, 4096, 512, 34.0e-6),
        ("bfloat16", 256, 401, 32, 9.0e-6),
        ("bfloat16", 1, 200704, 48, 16.4e-6),
        ("float32", 1, 64, 4096, 2.4e-6),
    ],
)
def test_outer_products_load_single_elements(
    dtype: str, batch: int, m: int, n: int, measured_s: float
) -> None:
    """K is 1, and so is the step between rows: on an H200 by kernels of single elements."""
    a, b = dense(batch, m, 1, dtype=dtype), dense(batch, 1, n, dtype=dtype)
    kernels = run("aten::bmm", (a, b), (dense(batch, m, n, dtype=dtype),), hot=True)
    assert sum(kernel.duration_s for kernel in kernels) == pytest.approx(measured_s, rel=0.25)


def _odd_s(m: int, n: int, k: int, dtype: str, biased: bool = False) -> float:
    a, b = dense(m, k, dtype=dtype), turned(dense(n, k, dtype=dtype))
    inputs = (dense(n, dtype=dtype), a, b) if biased else (a, b)
    kernels = run(
        "aten::addmm" if biased else "aten::mm", inputs, (dense(m, n, dtype=dtype),), hot=True
    )
    return sum(kernel.duration_s for kernel in kernels)


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype", "biased", "measured_s"),
    [
        (223, 11, 195, "bfloat16", True, 7.4e-6),
        (46, 3, 244, "bfloat16", True, 6.9e-6),
        (256, 129, 256, "bfloat16", False, 5.5e-6),
        (512, 50265, 1024, "bfloat16", False, 551e-6),
        (47, 1937, 320, "float16", True, 5.2e-6),
        (192, 184, 155, "float16", False, 3.7e-6),
    ],
)
def test_single_elements_are_waited_for_and_loaded_in_turn(
    m: int, n: int, k: int, dtype: str, biased: bool, measured_s: float
) -> None:
    """Rows that begin anywhere, recorded on an H200: a step of 32 elements waits 0.35 us and
    loads 5 elements a clock, whatever the matrix unit could do."""
    assert _odd_s(m, n, k, dtype, biased) == pytest.approx(measured_s, rel=0.3)


@pytest.mark.parametrize(
    ("m", "n", "k", "measured_s"), [(4096, 50257, 768, 3329e-6), (13952, 13317, 3520, 12274e-6)]
)
def test_vocabularies_of_odd_size(m: int, n: int, k: int, measured_s: float) -> None:
    """The first by tiles of 128 x 128 on an H200, the second by larger ones."""
    a, b = dense(m, k), turned(dense(n, k))
    kernels = run("aten::mm", (a, b), (dense(m, n),))
    assert sum(kernel.duration_s for kernel in kernels) == pytest.approx(measured_s, rel=0.12)


def test_a_bias_keeps_short_odd_products_whole() -> None:
    """46 x 3 x 244 with a bias has one kernel and walks 8 steps; without, K is cut."""
    assert _odd_s(46, 3, 244, "bfloat16", True) > 1.2 * _odd_s(46, 3, 244, "bfloat16")


def test_layouts_and_alignment_are_read_from_strides() -> None:
    assert layout_of(dense(8, 16)) == "N"
    assert layout_of(turned(dense(16, 8))) == "T"
    assert alignment_bytes(dense(8, 64)) == 16
    assert alignment_bytes(dense(8, 50257)) == 2
    assert alignment_bytes(dense(8, 50258)) == 4


def test_a_bias_is_fused_and_a_zero_beta_reads_nothing() -> None:
    a, b, out = dense(512, 1024), turned(dense(2048, 1024)), dense(512, 2048)
    with_bias = run("aten::addmm", (dense(2048), a, b), (out,))
    without = run("aten::addmm", (dense(512, 2048), a, b), (out,), beta=0)
    added = run("aten::addmm", (dense(512, 2048), a, b), (out,))
    assert len(with_bias) == 1
    assert added[0].name == "copy_added_matrix"  # the library adds in place
    assert added[1].read_bytes - without[0].read_bytes == 512 * 2048 * 2
    in_place = run("aten::addmm_", (dense(512, 2048), a, b), (out,))
    assert [k.kind for k in in_place] == ["matmul"]


def test_few_rows_of_float32_walk_the_depth_in_one_short_kernel() -> None:
    """2 x 454 x 256 took 1.9 us on an H200, 3 x 4 x 11 took 1.6: less than any tiled kernel."""
    for m, n, k in ((3, 4, 11), (2, 454, 256)):
        a, b, out = (
            dense(m, k, dtype="float32"),
            turned(dense(n, k, dtype="float32")),
            dense(m, n, dtype="float32"),
        )
        (kernel,) = run("aten::mm", (a, b), (out,))
        assert 1.4e-6 < kernel.duration_s < 6e-6
        assert kernel.tile[0] == m


def test_a_dense_column_is_aligned() -> None:
    """A product with one column is no odd product: its rows are a vector."""
    assert alignment_bytes(dense(2752, 1)) == 16
    assert alignment_bytes(dense(2752, 3)) == 2


@pytest.mark.parametrize(
    ("name", "inputs", "out", "flops"),
    [
        ("aten::mv", (dense(64, 128), dense(128)), dense(64), 2 * 64 * 128),
        ("aten::addmv", (dense(64), dense(64, 128), dense(128)), dense(64), 2 * 64 * 128),
        ("aten::dot", (dense(4096), dense(4096)), dense(), 2 * 4096),
        ("aten::linear", (dense(2, 8, 128), dense(64, 128)), dense(2, 8, 64), 2 * 16 * 64 * 128),
        ("aten::addbmm", (dense(8, 4), dense(3, 8, 16), dense(3, 16, 4)), dense(8, 4), 3072),
        ("aten::_int_mm", (dense(64, 64, dtype="int8"),) * 2, dense(64, 64, dtype="int32"), 2**19),
    ],
)
def test_the_other_products(name: str, inputs: tuple, out: object, flops: int) -> None:  # type: ignore[type-arg]
    kernels = run(name, inputs, (out,))  # type: ignore[arg-type]
    assert sum(k.flops for k in kernels) == flops
    assert all(k.low_s <= k.duration_s <= k.high_s for k in kernels)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int8"])
def test_a_sum_over_nothing_is_filled_with_zeros(dtype: str) -> None:
    """`result.zero_()` in ATen/native/cuda/Blas.cpp, where an operand is empty."""
    out = dense(64, 32, dtype=dtype)
    kernels = run("aten::mm", (dense(64, 0, dtype=dtype), dense(0, 32, dtype=dtype)), (out,))
    assert len(kernels) == 1
    assert kernels[0].flops == 0
    assert 5e-7 < kernels[0].duration_s < 2.5e-6


def test_nothing_is_launched_for_an_empty_result() -> None:
    assert run("aten::mm", (dense(0, 16), dense(16, 8)), (dense(0, 8),)) == ()


def test_without_calibration_the_estimate_says_so_and_is_close() -> None:
    empty = Calibration("nvidia-h200-sxm", None, "none")
    a, b, out = dense(4096, 4096), turned(dense(4096, 4096)), dense(4096, 4096)
    guess = run("aten::mm", (a, b), (out,), calibration=empty)[-1]
    known = run("aten::mm", (a, b), (out,))[-1]
    assert (guess.origin, known.origin) == ("estimated", "calibrated")
    assert guess.duration_s == pytest.approx(known.duration_s, rel=0.25)
    assert guess.high_s / guess.duration_s >= known.high_s / known.duration_s


def test_recorded_products_stay_within_their_errors() -> None:
    """A committed sample of kernel durations recorded on an H200, none of them tuned on."""
    inside, errors, usual = 0, [], []
    with SAMPLE.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        m, n, k = int(row["m"]), int(row["n"]), int(row["k"])
        dtype = {"bf16": "bfloat16", "fp16": "float16"}.get(row["dtype"], "float32")
        layout, tf32 = row["layout"], row["dtype"] == "tf32"
        a = dense(m, k, dtype=dtype) if layout[0] == "N" else turned(dense(k, m, dtype=dtype))
        b = dense(k, n, dtype=dtype) if layout[1] == "N" else turned(dense(n, k, dtype=dtype))
        kernels = run(
            "aten::mm",
            (a, b),
            (dense(m, n, dtype=dtype),),
            settings={"tf32_matmul": tf32},
            hot=row["state"] == "hot",
        )
        measured_s = float(row["seconds"])
        errors.append(abs(sum(x.duration_s for x in kernels) / measured_s - 1))
        if row["dtype"] == "bf16" and m % 8 == n % 8 == k % 8 == 0:
            usual.append(errors[-1])
        low, high = sum(x.low_s for x in kernels), sum(x.high_s for x in kernels)
        inside += low <= measured_s <= high
    assert len(rows) >= 60
    assert median(errors) < 0.12
    assert median(usual) < 0.07
    assert inside / len(rows) > 0.7


@pytest.mark.parametrize(
    "on", ["l40s", "rtx-4090", "a100", "h100", "h200", "b200", "b300", "gb200", "rtx-pro-6000"]
)
def test_a_small_product_waits_for_memory_once_and_not_long(on: str) -> None:
    """Published tables hold 2.2 to 2.8 µs for the shortest products of these devices, operands in
    L2; a load from device memory adds well below 2 µs."""
    small = [
        sum(
            k.duration_s
            for k in run(
                "aten::mm", (dense(64, 64), turned(dense(64, 64))), (dense(64, 64),), on=on, hot=hot
            )
        )
        for hot in (True, False)
    ]
    assert 1e-6 < small[0] < 5e-6
    assert 0 < small[1] - small[0] < 2e-6


def test_scales_of_rows_walk_one_tile_however_few_rows_there_are() -> None:
    """4,096 values, 128 at a time: 12.5 us for 1 to 64 rows on an H200, where products with one
    scale for all took 5.4 us."""

    def taken(rows: int, scales: int) -> float:
        a, b = dense(rows, 4096, dtype="float8_e4m3fn"), dense(4096, 4096, dtype="float8_e4m3fn")
        one, two = dense(scales, 1, dtype="float32"), dense(1, scales, dtype="float32")
        kernels = run("aten::_scaled_mm", (a, b, one, two), (dense(rows, 4096),))
        return sum(k.duration_s for k in kernels)

    assert taken(32, 32) == pytest.approx(12.5e-6, rel=0.1)
    assert taken(16, 16) == pytest.approx(taken(32, 32), rel=0.01)
    assert taken(32, 1) < 0.7 * taken(32, 32)
    assert taken(8192, 8192) == pytest.approx(taken(8192, 1), rel=0.1)


def test_rocm_copies_a_bias_into_the_result_first() -> None:
    """hipBLASLt's epilogue is off by default (Blas.cpp, `getDisableAddmmCudaLt`)."""
    a, b, out = dense(512, 1024), turned(dense(2048, 1024)), dense(512, 2048)
    bias = dense(2048)
    copied, product = run("aten::addmm", (bias, a, b), (out,), on="mi300x")
    plain = run("aten::mm", (a, b), (out,), on="mi300x")[0]
    assert copied.name == "copy_added_matrix"
    assert (copied.read_bytes, copied.written_bytes) == (2048 * 2, 512 * 2048 * 2)
    assert product.read_bytes - plain.read_bytes == 512 * 2048 * 2
    linear = run("aten::linear", (a, dense(2048, 1024), bias), (out,), on="mi300x")
    assert [k.name for k in linear] == [copied.name, product.name]


def test_rocblas_chooses_the_tile_of_a_batch_as_for_one_product() -> None:
    """On an MI210, 512 x 512 x 512 floats have 32 x 32 tiles however many there are."""

    def tile(batch: int, on: str) -> tuple[int, ...]:
        x = dense(batch, 256, 256, dtype="float32")
        return run("aten::bmm", (x, x), (x,), on=on)[-1].tile

    assert tile(1, "mi210") == tile(4096, "mi210")
    assert tile(1, "a100") != tile(4096, "a100")


@pytest.mark.parametrize(
    ("m", "n", "k", "measured_s"),
    [(8192, 1024, 1024, 0.618e-3), (4096, 4096, 1024, 1.032e-3), (8192, 8192, 2048, 8.904e-3)],
)
def test_float32_layers_of_an_mi210(m: int, n: int, k: int, measured_s: float) -> None:
    """Lee et al. 2025 (NeuSight): linear layers with a bias under PyTorch 2.4.1."""
    a, weight = dense(m, k, dtype="float32"), dense(n, k, dtype="float32")
    kernels = run(
        "aten::linear",
        (a, weight, dense(n, dtype="float32")),
        (dense(m, n, dtype="float32"),),
        on="mi210",
    )
    assert sum(kernel.duration_s for kernel in kernels) == pytest.approx(measured_s, rel=0.15)


def test_a_scratchpad_keeps_large_blocks_of_sums() -> None:
    """8,192 x 8,192 x 8,192 took 1.329 ms on a v6e (AI-Hypercomputer/tpu-recipes)."""
    made = mm(8192, 8192, 8192, on="tpu-v6e", layout="NN")
    assert made.limiter == "tensor_core"
    assert made.duration_s == pytest.approx(1.329e-3, rel=0.02)
    # 128 MiB keep blocks of sums of 3,500 x 3,500, or a third of an operand.
    assert 1.5 * 2 * 2 * 8192**2 < made.read_bytes < 2.5 * 2 * 2 * 8192**2
    deep = mm(4096, 14336, 32768, on="tpu-v6e", layout="TN")
    assert deep.limiter == "tensor_core"


def _with_bias_s(m: int, n: int, k: int) -> float:
    inputs = (dense(n, dtype="float32"), dense(m, k, dtype="float32"))
    inputs += (turned(dense(n, k, dtype="float32")),)
    out = (dense(m, n, dtype="float32"),)
    kernels = run("aten::addmm", inputs, out, settings={"tf32_matmul": False})
    return sum(kernel.duration_s for kernel in kernels)


def _plain_s(m: int, n: int, k: int) -> float:
    inputs = (dense(m, k, dtype="float32"), turned(dense(n, k, dtype="float32")))
    out = (dense(m, n, dtype="float32"),)
    kernels = run("aten::mm", inputs, out, settings={"tf32_matmul": False})
    return sum(kernel.duration_s for kernel in kernels)


def test_a_bias_of_a_large_float32_product_is_free() -> None:
    """198 us with a bias and without on an H200 (4096 x 4096 x 256)."""
    assert _with_bias_s(4096, 4096, 256) == pytest.approx(_plain_s(4096, 4096, 256), rel=0.02)
    assert _with_bias_s(4096, 4096, 256) == pytest.approx(198e-6, rel=0.1)


@pytest.mark.parametrize(
    ("m", "n", "k", "measured_s"),
    [
        (64, 9216, 2304, 75e-6),
        (512, 1024, 1024, 32.3e-6),
        (4096, 60, 2048, 39.9e-6),
        (4872, 13, 1536, 29.0e-6),
        (27, 640, 504, 6.7e-6),
    ],
)
def test_slices_of_float32_cost_a_sum_that_grows_with_them(
    m: int, n: int, k: int, measured_s: float
) -> None:
    """Two kernels on an H200, "execute_split_k" the second: 3.0 us for 3 to 7 slices, 9 for 33."""
    a, b = dense(m, k, dtype="float32"), turned(dense(n, k, dtype="float32"))
    kernels = run("aten::mm", (a, b), (dense(m, n, dtype="float32"),), hot=True)
    assert sum(kernel.duration_s for kernel in kernels) == pytest.approx(measured_s, rel=0.25)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 1024, 4096), (256, 256, 4096), (128, 768, 768)])
def test_a_bias_keeps_float32_from_splitting_k_as_it_would(m: int, n: int, k: int) -> None:
    """cuBLAS has no plain kernel for both: 54 us with a bias, 24 without (64 x 1024 x 4096)."""
    assert _with_bias_s(m, n, k) > 1.3 * _plain_s(m, n, k)


def test_batched_products_neither_cut_k_nor_have_a_form_for_a_small_side() -> None:
    """[8, 3, 8192] x [8, 8192, 64] took 143 us on an H200, one block of 32 x 32 each walking K."""
    a, b = dense(8, 3, 8192, dtype="float32"), dense(8, 8192, 64, dtype="float32")
    made = run("aten::bmm", (a, b), (dense(8, 3, 64, dtype="float32"),))
    assert len(made) == 1
    assert made[0].duration_s == pytest.approx(143e-6, rel=0.5)
    one = run("aten::mm", (dense(3, 8192), dense(8192, 64)), (dense(3, 64),))
    assert sum(k.duration_s for k in one) < made[0].duration_s / 3


def _with_row(m: int, n: int, k: int, **more: object) -> tuple[Kernel, ...]:
    """addmm of a row, in TF32, whose operands are in the L2."""
    specs = (
        dense(n, dtype="float32"),
        dense(m, k, dtype="float32"),
        turned(dense(n, k, dtype="float32")),
    )
    out = (dense(m, n, dtype="float32"),)
    return run("aten::addmm", specs, out, settings={"tf32_matmul": True}, hot=True, **more)  # type: ignore[arg-type]


def test_slices_beside_a_bias_wait_for_their_turns_where_room_for_them_lacks() -> None:
    """39 x 3,584 of 1,407: two slices of float32 need 1.1 MB, PyTorch lends 1 MiB. 19.1 us."""
    cleared, main = _with_row(39, 3584, 1407)
    assert cleared.kind == "memset"
    assert main.note  # K split
    assert cleared.duration_s + main.duration_s == pytest.approx(19.1e-6, rel=0.15)
    main, added_up = _with_row(32, 1000, 512)  # 5.7 us as recorded, 0.8 MB
    assert added_up.name == "split_k_reduce"
    assert main.duration_s + added_up.duration_s == pytest.approx(5.7e-6, rel=0.25)


def test_a_sum_over_slices_is_a_start_its_slices_and_their_bytes() -> None:
    constants = Constants(calibration_for(device("h200")))
    machine = machine_for(device("h200"), constants, "bfloat16", "matmul")
    small = Problem(64, 64, 4096, 1, "bfloat16", 1e5, 1e5, 8192.0, 2.0)
    seconds = [reduction_s(small, machine, n) for n in (2, 4, 128)]
    assert seconds[0] == pytest.approx(1.5e-6, rel=0.1)
    assert seconds[1] - seconds[0] == pytest.approx(2 * 2.8e-8 + 2 * 64 * 64 * 4 / 5e12, rel=0.05)
    assert seconds == sorted(seconds)


@pytest.mark.parametrize(("columns", "counted"), [(8192, True), (8190, False)])
def test_only_hoppers_own_kernels_draw_tiles_by_a_counter(columns: int, counted: bool) -> None:
    """Rows of 8,190 begin anywhere: kernels of an earlier generation launch a block a tile."""
    kernels = run("aten::mm", (dense(8192, 512), dense(512, columns)), (dense(8192, columns),))
    assert any(k.kind == "memset" for k in kernels) == counted


def test_an_operand_of_which_no_dimension_is_dense_is_copied_first() -> None:
    """As the gradient of a sum, which is one number expanded."""
    grad = TensorSpec((256, 128), (0, 0), "float32", "device", 0)
    weight, out = dense(128, 64), dense(256, 64)
    names = [kernel.name for kernel in run("aten::mm", (grad, weight), (out,))]
    assert names[0].startswith("copy")
    assert len(names) == 1 + len(run("aten::mm", (dense(256, 128), weight), (out,)))
