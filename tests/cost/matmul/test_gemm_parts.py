"""The parts of a product's time: they add up, none is negative, and each has its known cause."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.cost.matmul.gemm import Machine, Problem, candidates, machine_for, plan, rate_and_unit
from gpuscope.cost.matmul.parts import Parts, parts
from gpuscope.cost.registry import Constants
from gpuscope.hardware import calibration_for, device

SIZES = st.integers(1, 9000)


def _machine(name: str, dtype: str) -> Machine:
    found = device(name)
    return machine_for(found, Constants(calibration_for(found)), dtype, "matmul", 16)


def _problem(m: int, n: int, k: int, dtype: str = "bfloat16", hot: bool = False) -> Problem:
    size = 4 if dtype == "float32" else 2
    return Problem(
        m, n, k, 1, dtype, size * m * k, size * n * k, size * m * n, size, hot_a=hot, hot_b=hot
    )


def _parts(problem: Problem, name: str = "h200") -> Parts:
    machine = _machine(name, problem.dtype)
    peak = rate_and_unit(device(name), problem.dtype)[0]
    return parts(problem, machine, plan(problem, machine), peak)


@settings(max_examples=60, deadline=None)
@given(
    SIZES,
    SIZES,
    SIZES,
    st.sampled_from(["h200", "a100", "mi300x", "l40s", "tpu-v5e"]),
    st.sampled_from(["bfloat16", "float32"]),
)
def test_parts_add_up_and_none_is_negative(m: int, n: int, k: int, name: str, dtype: str) -> None:
    problem = _problem(m, n, k, dtype)
    found = _parts(problem, name)
    whole = plan(problem, _machine(name, dtype)).duration_s
    assert found.total_s == pytest.approx(whole, rel=1e-9)
    for field in fields(found):
        value = getattr(found, field.name)
        assert isinstance(value, str) or value >= -1e-15, field.name


@settings(max_examples=40, deadline=None)
@given(SIZES, SIZES, SIZES, st.booleans())
def test_candidates_begin_with_the_chosen_one(m: int, n: int, k: int, hot: bool) -> None:
    problem, machine = _problem(m, n, k, hot=hot), _machine("h200", "bfloat16")
    found = candidates(problem, machine, 6)
    assert found[0] == plan(problem, machine)
    assert len({(c.tile, c.split) for c in found}) == len(found)
    if all(c.split == 1 for c in found):
        times = [c.duration_s for c in found]
        assert times == sorted(times)


def test_whole_tiles_have_no_edge_and_whole_waves_no_tail() -> None:
    machine = _machine("h200", "bfloat16")
    # 132 tiles of 128 x 256: one for each multiprocessor.
    problem = _problem(128 * 11, 256 * 12, 4096)
    one = next(c for c in candidates(problem, machine, 200) if (c.tile.m, c.tile.n) == (128, 256))
    found = parts(problem, machine, one, device("h200").peak_flops_per_s("bf16"))
    assert one.grid == 132
    assert found.edge_s == pytest.approx(0.0, abs=1e-15)
    assert found.tail_s == pytest.approx(0.0, abs=1e-15)


def test_one_tile_more_costs_a_whole_round() -> None:
    machine = _machine("h200", "bfloat16")
    peak = device("h200").peak_flops_per_s("bf16")

    def tail_s(columns: int) -> float:
        problem = _problem(128 * 11, 256 * columns, 4096)
        one = next(
            c for c in candidates(problem, machine, 200) if (c.tile.m, c.tile.n) == (128, 256)
        )
        return parts(problem, machine, one, peak).tail_s

    # 13 columns of tiles: 143 tiles in two rounds; 121 of 264 slots stay empty.
    one_round = parts(
        _problem(128 * 11, 256 * 12, 4096), machine, plan(_problem(1408, 3072, 4096), machine), peak
    )
    assert tail_s(12) == pytest.approx(0.0, abs=1e-15)
    loop_s = one_round.peak_s + one_round.rate_s + one_round.feed_s
    assert tail_s(13) == pytest.approx(loop_s * 121 / 132, rel=0.02)


def test_hot_operands_need_no_start() -> None:
    assert _parts(_problem(512, 512, 512)).start_s > 0
    assert _parts(_problem(512, 512, 512, hot=True)).start_s == 0.0


def test_a_matrix_vector_product_streams() -> None:
    problem = _problem(1, 4096, 4096, "float32")
    found = _parts(problem)
    assert found.total_s == pytest.approx(plan(problem, _machine("h200", "float32")).duration_s)
    assert found.memory_s > found.peak_s


def test_waiting_for_turns_is_a_part_of_splitting() -> None:
    size = 39 * 3584
    problem = Problem(
        39, 3584, 1407, 1, "tf32", 39 * 1407 * 4, 3584 * 1407 * 4, size * 4, 4, 4, biased=True
    )
    device_ = device("h200")
    machine = machine_for(device_, Constants(calibration_for(device_)), "tf32", "matmul", 4)
    found = plan(problem, machine)
    assert found.by_turns
    shown = parts(problem, machine, found, rate_and_unit(device_, "tf32")[0])
    assert shown.total_s == pytest.approx(found.duration_s, rel=1e-9)
    assert shown.split_s > (found.split - 1) * 1e-6
