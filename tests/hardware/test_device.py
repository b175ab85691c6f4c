"""Rates by dtype, origins, and what-if devices."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.hardware import device

H200 = device("h200")


def test_tensor_cores_and_vector_lanes_are_told_apart() -> None:
    assert H200.peak_flops_per_s("float32") == 66.9e12  # true float32 has no tensor cores
    assert H200.peak_flops_per_s("tf32") == 494.7e12
    assert H200.peak_flops_per_s("float64") == 66.9e12
    assert H200.peak_flops_per_s("float64", tensor_core=False) == 33.5e12
    assert H200.peak_flops_per_s("torch.bfloat16") == 989.4e12
    # 132 SMs x 256 lanes x 2 x 1.98 GHz: the 133.8 TFLOPS of the whitepaper.
    assert H200.peak_flops_per_s("float16", tensor_core=False) == pytest.approx(133.8e12, rel=1e-3)
    assert device("4090").peak_flops_per_s("bfloat16", False) == pytest.approx(82.6e12, rel=1e-2)


def test_a_missing_dtype_says_which_there_are() -> None:
    a100 = device("a100")
    assert not a100.supports("float8_e4m3fn")
    with pytest.raises(UnsupportedError) as error:
        a100.peak_flops_per_s("float8_e4m3fn")
    assert "float8_e4m3fn" in str(error.value)
    assert "bfloat16" in str(error.value)
    assert not device("v100").supports("bfloat16")
    with pytest.raises(UnsupportedError):
        H200.peak_flops_per_s("int8", tensor_core=False)


def test_an_unknown_dtype_lists_the_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="bfloat16"):
        H200.supports("bfloat61")


def test_a_figure_that_is_missing_is_none_and_require_refuses_it() -> None:
    tpu = device("tpu-v5p")
    assert tpu.clock_hz is None
    with pytest.raises(UnsupportedError, match="clock_hz"):
        tpu.require("clock_hz")
    assert H200.require("compute_units") == 132


def test_origin_and_source() -> None:
    assert H200.origin("memory_bandwidth_bytes_per_s") == "datasheet"
    assert H200.origin("launch_latency_s") == "measured"
    assert H200.origin("last_level_cache_bytes") is None
    assert "H200" in (H200.source("idle_power_w") or "")
    with pytest.raises(UnknownNameError, match="memory_bytes"):
        H200.origin("memory_byte")


def test_a_what_if_shows_itself() -> None:
    better = H200.replace(memory_bandwidth_bytes_per_s=8e12, memory_bytes=288e9)
    assert better.memory_bandwidth_bytes_per_s == 8e12
    assert better.memory_bytes == 288_000_000_000
    assert better.origin("memory_bandwidth_bytes_per_s") == "what-if"
    assert better.source("memory_bandwidth_bytes_per_s") is None
    assert "memory_bandwidth_bytes_per_s=8e+12" in better.name
    assert better.id == H200.id
    assert better.origin("bf16") == H200.origin("bf16") == "secondary source"
    share = H200.memory_usable_bytes / H200.memory_bytes
    assert better.memory_usable_bytes == pytest.approx(288e9 * share, rel=1e-9)
    assert H200.memory_bandwidth_bytes_per_s == 4.8e12  # the real one is untouched


def test_given_peaks_win_over_scaling() -> None:
    what_if = H200.replace(compute_units=264, peak_flops_per_s={"bfloat16": 1e15})
    assert what_if.peak_flops_per_s("bfloat16") == 1e15
    assert what_if.peak_flops_per_s("float16") == pytest.approx(2 * 989.4e12)
    assert what_if.origin("bf16") == "what-if"
    assert H200.replace(peak_flops_per_s=2.0).peak_flops_per_s("tf32") == pytest.approx(989.4e12)
    tensor = H200.replace(peak_flops_per_s={"float64": 1e14})
    assert tensor.peak_flops_per_s("float64") == 1e14
    assert tensor.peak_flops_per_s("float64", tensor_core=False) == 33.5e12


def test_links_can_be_changed() -> None:
    what_if = H200.replace(
        scale_up_bandwidth_bytes_per_s=9e11, host_link_bandwidth_bytes_per_s=126e9
    )
    assert what_if.scale_up is not None
    assert what_if.scale_up.bandwidth_bytes_per_s == 9e11
    assert what_if.scale_up.bandwidth_per_link_bytes_per_s == pytest.approx(50e9)
    assert what_if.scale_up.bandwidth_origin == "what-if"
    assert what_if.host_link_bandwidth_bytes_per_s == 126e9
    with pytest.raises(InvalidValueError, match="scale_up"):
        device("m2-max").replace(scale_up_bandwidth_bytes_per_s=1e9)


def test_wrong_changes_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="memory_bandwidth_bytes_per_s"):
        H200.replace(memory_bandwidth=8e12)
    for bad in (0, -1, float("nan"), float("inf"), "8TB/s", True, None):
        with pytest.raises(InvalidValueError):
            H200.replace(memory_bytes=bad)
    with pytest.raises(InvalidValueError, match="name"):
        H200.replace(name=3)
    with pytest.raises(InvalidValueError):
        H200.replace(peak_flops_per_s={"bf16": -1})


@given(st.integers(min_value=1, max_value=4000), st.floats(min_value=1e8, max_value=1e10))
def test_peaks_scale_with_units_and_clock(units: int, clock_hz: float) -> None:
    what_if = H200.replace(compute_units=units, clock_hz=clock_hz)
    scale = units / 132 * clock_hz / 1.98e9
    for dtype in H200.dtypes:
        expected = H200.peak_flops_per_s(dtype) * scale
        assert what_if.peak_flops_per_s(dtype) == pytest.approx(expected)
    per_clock = H200.flops_per_clock_per_unit("bfloat16")
    assert what_if.flops_per_clock_per_unit("bfloat16") == pytest.approx(per_clock)


def test_a_device_hashes_and_pickles() -> None:
    assert pickle.loads(pickle.dumps(H200)) == H200
    assert len({H200, device("h200"), H200.replace(compute_units=160)}) == 2


def test_float32_of_matrix_units_is_told_from_that_of_the_lanes() -> None:
    """AMD's CDNA2 multiplies true float32 on its matrix units, at twice the vector rate."""
    mi210 = device("mi210")
    assert mi210.peak_flops_per_s("float32") == pytest.approx(45.3e12)
    assert mi210.peak_flops_per_s("float32", tensor_core=False) == pytest.approx(22.6e12)
    h200 = device("h200")
    assert h200.peak_flops_per_s("float32") == h200.peak_flops_per_s("float32", tensor_core=False)
