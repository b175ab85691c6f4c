from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_work import dense, one, recorded

from gpuscope.cost.bandwidth import Launch, fetched_bytes, kernel, machine, missed_share
from gpuscope.cost.registry import Constants, Work
from gpuscope.hardware import Calibration, Device, calibration_for, device
from gpuscope.program.types import Op, TensorSpec

MIB = 2**20


def work(on: str | Device = "h200", calibration: Calibration | None = None) -> Work:
    target = device(on) if isinstance(on, str) else on
    return Work(Op(0, "aten::x"), target, Constants(calibration or calibration_for(target)))


def stream(
    on: str | Device = "h200", cold: float = 0.0, out: float = 0.0, grid: int = 10**5, **more: float
) -> float:
    launch = Launch("x", "copy", cold, 0.0, out, grid=grid, streaming=True, **more)  # type: ignore[arg-type]
    return kernel(work(on), launch).duration_s


def test_large_copies_take_bytes_over_bandwidth() -> None:
    h200 = device("h200")
    size = 4e9
    taken = stream(cold=size, out=size)
    best = 2 * size / h200.memory_bandwidth_bytes_per_s
    assert best < taken < best / 0.8


def test_nothing_to_do_takes_the_floor() -> None:
    assert stream(grid=1) == pytest.approx(machine(work()).floor_s)


def test_twice_the_bytes_take_twice_as_long_when_large() -> None:
    assert stream(cold=8e9) / stream(cold=4e9) == pytest.approx(2.0, rel=0.01)


def test_issue_counts_whole_blocks_of_the_busiest_multiprocessor() -> None:
    units = device("h200").compute_units or 0
    m = machine(work())
    full = kernel(work(), Launch("x", "copy", items=1e6, cycles=10.0, grid=units))
    over = kernel(
        work(), Launch("x", "copy", items=1e6 * (units + 1) / units, cycles=10.0, grid=units + 1)
    )
    ratio = (over.duration_s - m.floor_s) / (full.duration_s - m.floor_s)
    assert ratio == pytest.approx(2.0, rel=0.01)
    assert full.limiter == "issue"


def test_chain_counts_once_for_each_wave() -> None:
    units = device("h200").compute_units or 0
    one_wave = kernel(work(), Launch("x", "copy", grid=units, resident=1, chain_s=1e-4))
    three = kernel(work(), Launch("x", "copy", grid=3 * units, resident=1, chain_s=1e-4))
    floor = machine(work()).floor_s
    assert three.duration_s - floor == pytest.approx(3 * (one_wave.duration_s - floor), rel=1e-6)
    assert three.limiter == "latency"
    assert three.waves == pytest.approx(3.0)


@settings(max_examples=40, deadline=None)
@given(st.floats(1e3, 1e10), st.floats(0, 1e10), st.integers(1, 10**6))
def test_more_bandwidth_or_units_never_slow_down(cold: float, out: float, grid: int) -> None:
    h200 = device("h200")
    units = h200.compute_units or 0
    base = stream(h200, cold, out, grid, items=cold, cycles=0.3)
    fast = h200.replace(memory_bandwidth_bytes_per_s=2 * h200.memory_bandwidth_bytes_per_s)
    wide = h200.replace(compute_units=2 * units)
    assert stream(fast, cold, out, grid, items=cold, cycles=0.3) <= base * (1 + 1e-9)
    assert stream(wide, cold, out, grid, items=cold, cycles=0.3) <= base * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(1, 10**6))
def test_more_bytes_never_take_less(cold: float, more: float, grid: int) -> None:
    assert stream(cold=cold + more, grid=grid) >= stream(cold=cold, grid=grid)


def test_broadcast_dimensions_are_fetched_once() -> None:
    row = TensorSpec((1000, 64), (0, 1), "float32")
    assert fetched_bytes(row) == 64 * 4


def test_gappy_elements_cost_their_sectors() -> None:
    every_other = TensorSpec((512,), (2,), "float32")
    lonely = TensorSpec((512,), (100,), "float32")
    assert fetched_bytes(every_other) == 512 * 8
    assert fetched_bytes(lonely) == 512 * 32


def test_a_second_pass_hits_the_cache_while_it_fits() -> None:
    m = machine(work())
    assert missed_share(m, 1024.0, 10**6, 16) == 0.0
    assert missed_share(m, 1.0e6, 10**6, 16) == 1.0


def test_hot_inputs_are_faster() -> None:
    x, out = dense(MIB), dense(MIB)
    assert one("relu", (x,), (out,), hot=True).duration_s < one("relu", (x,), (out,)).duration_s


@pytest.mark.parametrize("name", ["mi300x", "tpu-v5p", "m2-max", "l4", "v100", "gaudi2"])
def test_devices_with_missing_facts_stay_near_their_bandwidth(name: str) -> None:
    target = device(name)
    size = 2e9
    taken = one("neg", (dense(int(size / 4)),), (dense(int(size / 4)),), on=target)
    best = 2 * size / target.memory_bandwidth_bytes_per_s
    assert best < taken.duration_s < 2.5 * best
    assert taken.origin == "estimated"
    assert taken.high_s / taken.low_s > 1.1


def test_every_calibrated_constant_is_read_by_a_model() -> None:
    """A constant that no model asks for would be a fit without effect."""
    import re
    from pathlib import Path

    import gpuscope.cost as cost

    code = "".join(p.read_text() for p in Path(cost.__path__[0]).glob("*.py"))
    for name in calibration_for(device("h200")).names("bandwidth"):
        assert re.search(re.escape(f'"{name}"'), code), name


def test_recorded_calls_of_every_kind_are_met() -> None:
    errors = sorted(abs(p / m - 1) for p, m in recorded())
    assert len(errors) > 200
    assert errors[len(errors) // 2] < 0.10
    assert sum(errors) / len(errors) < 0.16


def test_intervals_hold_most_recorded_calls() -> None:
    """The 80 % interval of the largest family holds about that share of its calls."""
    spread = calibration_for(device("h200")).spread("pointwise.scale")
    inside = [abs(p / m - 1) <= spread for p, m in recorded("add", "mul", "relu", "where", "neg")]
    assert sum(inside) / len(inside) > 0.6


def test_blocks_begin_one_after_the_other() -> None:
    """Fills of two-byte values: 97,657 blocks of 2 KiB took 59.4 us, at 3.4 TB/s; with 4 KiB a
    block, 85.6 us at 4.7 TB/s. Ranges of one value a thread: 0.60 ns a block as well."""
    grid = 97_657
    narrow = stream(out=grid * 2048.0, grid=grid)
    assert narrow == pytest.approx(59.4e-6, rel=0.04)
    assert stream(out=grid * 4096.0, grid=grid) == pytest.approx(85.6e-6, rel=0.04)
    assert stream(grid=1_562_500) == pytest.approx(1_562_500 * 0.60e-9, rel=0.03)
