"""A step on another machine: the same answer as a whole prediction, and the limits of the model."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope import api
from gpuscope.hardware import device
from gpuscope.program.types import Op, Program, Storage, TensorSpec
from gpuscope.timeline import recost as timeline_recost
from gpuscope.timeline import uncertainty
from gpuscope.timeline.recost import recost

H200 = device("h200")
MIB = 1 << 20


def spec(*shape: int, storage: int = -1) -> TensorSpec:
    stride = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return TensorSpec(shape, tuple(stride), "bfloat16", storage=storage)


def product(index: int, m: int, n: int, k: int) -> Op:
    return Op(index, "aten::mm", inputs=(spec(m, k), spec(k, n)), outputs=(spec(m, n),))


def add(index: int, count: int) -> Op:
    return Op(index, "aten::add", inputs=(spec(count), spec(count)), outputs=(spec(count),))


STEP = Program(
    "step",
    (product(0, 8192, 8192, 8192), add(1, 1 << 28), product(2, 4096, 4096, 4096)),
    storages=(Storage(0, 64 * MIB, "parameter", -1, None), Storage(1, 8 * MIB, "activation", 0, 2)),
)


@pytest.mark.parametrize("name", ["h200", "h100", "a100", "mi300x"])
def test_the_time_is_that_of_a_whole_prediction(name: str) -> None:
    run = api.predict(STEP, name)
    found = recost(STEP, device(name), interval=True, memory=True)
    assert found.step_time_s == run.step_time_s
    assert (found.low_s, found.high_s) == run.step_time_interval_s
    assert found.peak_memory_bytes == run.peak_memory_bytes
    assert found.fits is True
    if run.energy_j is not None:
        assert found.energy_j == pytest.approx(run.energy_j, rel=0.02)


def test_a_step_is_laid_out_once_for_its_time_and_its_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    laid = []
    for module in (timeline_recost, uncertainty):
        build = module.build_schedule
        monkeypatch.setattr(
            module, "build_schedule", lambda costed, build=build: laid.append(1) or build(costed)
        )
    assert recost(STEP, H200, interval=True).low_s is not None
    assert len(laid) == 1


def test_a_program_that_was_predicted_can_be_given_again() -> None:
    run = api.predict(STEP, "h200")
    assert run.program is not None
    again = recost(run.program, H200, memory=True)
    assert again.peak_memory_bytes == run.peak_memory_bytes
    other = recost(run.program, device("a100"), memory=True)
    assert other.peak_memory_bytes == api.predict(STEP, "a100").peak_memory_bytes


def test_work_is_counted_once() -> None:
    found = recost(STEP, H200)
    assert found.matrix_flops == pytest.approx(2.0 * (8192**3 + 4096**3))
    assert found.moved_bytes >= 3 * 2 * (1 << 28)
    assert found.low_s is None
    assert found.peak_memory_bytes is None


@given(st.floats(0.3, 4.0), st.floats(0.3, 4.0))
@settings(max_examples=15, deadline=None)
def test_more_of_anything_never_hurts(first: float, second: float) -> None:
    low, high = sorted((first, second))
    bandwidth = [
        recost(STEP, H200.replace(memory_bandwidth_bytes_per_s=4.8e12 * f)).step_time_s
        for f in (low, high)
    ]
    # Sooner done with memory, more of the step is arithmetic, and the power limit takes some back.
    assert bandwidth[1] <= bandwidth[0] * 1.01
    host = recost(STEP, H200, host_factors=(low, high)).host_s
    assert host[0] <= host[1] * (1 + 1e-9)


def test_a_slow_host_sets_the_pace_in_the_end() -> None:
    tiny = Program("tiny", tuple(add(i, 1024) for i in range(50)))
    found = recost(tiny, H200, host_factors=(1.0, 2.0, 4.0))
    assert found.host_s[0] == found.step_time_s
    assert found.host_s[2] == pytest.approx(2 * found.host_s[1], rel=0.05)


def test_too_little_memory_is_said() -> None:
    small = H200.replace(memory_bytes=70 * MIB)
    assert recost(STEP, small, memory=True).fits is False


def test_the_public_function_takes_names_and_changes() -> None:
    plain = api.recost(STEP, "h200")
    assert plain.step_time_s == api.predict(STEP, "h200").step_time_s
    faster = api.recost(STEP, "h200", overrides={"memory_bandwidth_bytes_per_s": 9.6e12})
    assert faster.step_time_s < plain.step_time_s
