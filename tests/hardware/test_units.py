"""Quantities, settings and sweeps as people write them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.hardware import device, parse_overrides, parse_quantity, parse_sweep


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("288GB", "bytes", 288e9),
        ("288 GB", "bytes", 288e9),
        ("256GiB", "bytes", 256 * 2**30),
        ("50MiB", "bytes", 50 * 2**20),
        ("228KiB", "bytes", 228 * 1024),
        ("1kB", "bytes", 1e3),
        ("512B", "bytes", 512),
        ("1_000", "bytes", 1000),
        ("8TB/s", "bytes/s", 8e12),
        ("900GBps", "bytes/s", 9e11),
        ("400Gb/s", "bytes/s", 50e9),
        ("400Gbps", "bytes/s", 50e9),
        ("3.2Tbit/s", "bytes/s", 400e9),
        ("1.98GHz", "Hz", 1.98e9),
        ("1980 MHz", "Hz", 1.98e9),
        ("700W", "W", 700),
        ("0.7kW", "W", 700),
        ("82000mW", "W", 82),
        ("2.5us", "s", 2.5e-6),
        ("2.5 µs", "s", 2.5e-6),
        ("300ns", "s", 3e-7),
        ("1ms", "s", 1e-3),
        ("2PFLOPS", "FLOP/s", 2e15),
        ("989.4 TFLOP/s", "FLOP/s", 989.4e12),
        ("1e15", "FLOP/s", 1e15),
        ("7.91$/h", "USD/h", 7.91),
        ("160", "count", 160),
    ],
)
def test_a_quantity(text: str, dimension: str, value: float) -> None:
    assert parse_quantity(text, dimension) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "dimension"),
    [
        ("8TB", "bytes/s"),
        ("8TB/s", "bytes"),
        ("8Gb", "bytes"),
        ("8iB", "bytes"),
        ("fast", "Hz"),
        ("", "bytes"),
        ("8 8GB", "bytes"),
        ("1.98Gz", "Hz"),
        ("160SM", "count"),
        ("1e999", "count"),
        ("700MHz", "W"),
    ],
)
def test_a_wrong_quantity_shows_a_right_one(text: str, dimension: str) -> None:
    with pytest.raises(InvalidValueError) as error:
        parse_quantity(text, dimension)
    assert text in str(error.value)


@given(
    st.floats(min_value=1e-3, max_value=1e6),
    st.sampled_from([("B", 1.0), ("KB", 1e3), ("GB", 1e9), ("TiB", 2.0**40)]),
    st.sampled_from(["", " "]),
)
def test_bytes_round_trip(number: float, unit: tuple[str, float], space: str) -> None:
    name, scale = unit
    assert parse_quantity(f"{number!r}{space}{name}", "bytes") == pytest.approx(number * scale)
    rate = parse_quantity(f"{number!r}{space}{name}/s", "bytes/s")
    assert rate == pytest.approx(number * scale)


@given(st.text(max_size=12))
def test_any_text_is_a_finite_number_or_a_clear_error(text: str) -> None:
    try:
        value = parse_quantity(text, "bytes")
    except InvalidValueError:
        return
    assert math.isfinite(value)
    assert any(character.isdigit() for character in text)


def test_overrides_go_straight_into_replace() -> None:
    settings = ["memory_bandwidth=8TB/s", "memory=288GB", "sm_count=160", "bf16=2PFLOPS"]
    changed = device("h200").replace(**parse_overrides(settings))
    assert changed.memory_bandwidth_bytes_per_s == 8e12
    assert changed.memory_bytes == 288_000_000_000
    assert changed.compute_units == 160
    assert changed.peak_flops_per_s("bfloat16") == 2e15
    assert changed.peak_flops_per_s("tf32") == pytest.approx(494.7e12 * 160 / 132)


def test_full_field_names_and_short_ones() -> None:
    assert parse_overrides(["memory_bytes=1GB", "nvlink=900GB/s", "max-warps-per-unit=48"]) == {
        "memory_bytes": 1e9,
        "scale_up_bandwidth_bytes_per_s": 9e11,
        "max_warps_per_unit": 48,
    }
    assert parse_overrides([]) == {}


@pytest.mark.parametrize(
    "setting", ["memory", "memory=", "=8GB", "memory=-1GB", "memory=0", "flops=1PFLOPS"]
)
def test_a_wrong_setting(setting: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_overrides([setting])


@pytest.mark.parametrize(
    ("setting", "example"),
    [
        ("memory=288", "288GB"),
        ("bandwidth=8", "8TB/s"),
        ("clock=2", "1.98GHz"),
        ("bf16=2", "989TFLOPS"),
        ("launch-latency=3", "2.5us"),
    ],
)
def test_a_setting_without_a_unit_is_told_one(setting: str, example: str) -> None:
    with pytest.raises(InvalidValueError, match="has no unit") as error:
        parse_overrides([setting])
    assert example in error.value.next_step
    name, _, value = setting.partition("=")
    with pytest.raises(InvalidValueError, match="has no unit"):
        parse_sweep(f"{name}={value}..{value}0")


def test_where_the_unit_is_known_it_may_be_left_out() -> None:
    assert parse_overrides(["memory_bytes=8e10", "tdp=700", "price=3", "sms=160"]) == {
        "memory_bytes": 8e10,
        "tdp_w": 700,
        "price_usd_per_hour": 3,
        "compute_units": 160,
    }


def test_a_figure_is_set_once() -> None:
    with pytest.raises(InvalidValueError, match="second time"):
        parse_overrides(["memory=8GB", "memory_bytes=9GB"])


def test_an_unknown_setting_lists_the_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="memory_bandwidth"):
        parse_overrides(["memory_bandwith=8TB/s"])


@pytest.mark.parametrize(
    ("text", "field", "values"),
    [
        (
            "memory_bandwidth=2..10TB/s",
            "memory_bandwidth_bytes_per_s",
            [i * 1e12 for i in range(2, 11)],
        ),
        ("memory_bandwidth=2TB/s..4TB/s", "memory_bandwidth_bytes_per_s", [2e12, 3e12, 4e12]),
        ("memory_bandwidth=500GB/s..1TB/s:2", "memory_bandwidth_bytes_per_s", [5e11, 1e12]),
        ("memory=80,141,288GB", "memory_bytes", [80e9, 141e9, 288e9]),
        ("sm_count=100..300:3", "compute_units", [100, 200, 300]),
        ("batch=1..64", "batch", [1, 2, 4, 8, 16, 32, 64]),
        ("batch=1..50", "batch", [1, 2, 4, 8, 16, 32, 50]),
        ("devices=8,16,64", "devices", [8, 16, 64]),
        ("bf16=1..3PFLOPS", "bf16", [1e15, 2e15, 3e15]),
    ],
)
def test_a_sweep(text: str, field: str, values: list[float]) -> None:
    found_field, found = parse_sweep(text)
    assert found_field == field
    assert found == pytest.approx(values)


@given(
    st.floats(min_value=0.1, max_value=100),
    st.floats(min_value=0.1, max_value=100),
    st.integers(min_value=2, max_value=50),
)
def test_a_sweep_keeps_its_ends_and_rises(low: float, span: float, points: int) -> None:
    high = low + span
    _, values = parse_sweep(f"memory_bandwidth={low!r}..{high!r}TB/s:{points}")
    assert len(values) == points
    assert values[0] == pytest.approx(low * 1e12)
    assert values[-1] == pytest.approx(high * 1e12)
    assert list(values) == sorted(values)


@pytest.mark.parametrize(
    "text",
    [
        "memory=10..2GB",
        "memory=2..2GB",
        "memory=1..8GB:1",
        "memory=1..8GB:many",
        "memory=..8GB",
        "batch",
        "batch=0..8",
        "memory=1..8TB/s",
    ],
)
def test_a_wrong_sweep(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_sweep(text)
