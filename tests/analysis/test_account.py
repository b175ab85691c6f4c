"""The account of a step: terms by hand, and that they add up whatever the step holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import BANDWIDTH, H200, TimelineBuilder, kernel, matmul, spec, streaming
from hypothesis import given
from hypothesis import strategies as st
from recorded_calls import TRACES

from gpuscope.analysis import analyze
from gpuscope.analysis.account import idle_units
from gpuscope.analysis.account_types import TERMS, Account
from gpuscope.analysis.grouping import group_key
from gpuscope.cost.types import Kernel
from gpuscope.loading import load
from gpuscope.program.types import Program, Storage

UNITS = H200.compute_units or 0
FREE_OF_CLOCK = matmul(100, dtype="float32", flops=0.0, least_bytes=BANDWIDTH * 10e-6)
"""Of 100 us, 10 at the roofline; no model says at which clock it ran."""


def _account(b: TimelineBuilder, **options: object) -> Account:
    found = analyze(b.build(), on=H200, **options).account  # type: ignore[arg-type]
    assert found is not None
    total = sum(term.time_s or 0.0 for term in found.terms)
    assert total == pytest.approx(found.step_s, rel=1e-9)
    assert [term.key for term in found.terms] == list(TERMS)
    return found


def _us(found: Account) -> dict[str, float]:
    return {t.key: round(t.time_s * 1e6, 3) for t in found.terms if t.time_s}


def test_each_term_by_hand() -> None:
    b = TimelineBuilder()
    b.chain([matmul(100, of_peak=0.5, dtype="float32", flops=0.0, least_bytes=BANDWIDTH * 40e-6)])
    b.work(100, 130, cost=kernel(30))
    b.work(130, 150, kind="memcpy", name="Memcpy HtoD", cost=kernel(20, kind="transfer"))
    b.work(150, 175, kind="communication", cost=kernel(25, kind="collective"))
    b.step(0, 200)
    assert _us(_account(b)) == {
        "peak": 40.0,  # 40 us of bytes at the full bandwidth
        "library": 60.0,
        "pointwise": 30.0,
        "transfers": 20.0,
        "communication": 25.0,
        "idle": 25.0,
    }


def test_a_tail_is_what_multiprocessors_wait_for_the_last_blocks() -> None:
    # 1.5 blocks for each multiprocessor take as long as 2: a quarter of the arithmetic is waiting.
    b = TimelineBuilder()
    b.chain([replace(FREE_OF_CLOCK, grid=UNITS * 3 // 2, waves=1.5)])
    assert _us(_account(b)) == {"peak": 10.0, "library": 65.0, "tails": 25.0}


def test_a_product_that_memory_paces_has_no_tail() -> None:
    b = TimelineBuilder()
    b.chain([matmul(100, grid=1, waves=0.1, compute_s=10e-6, memory_s=90e-6, flops=0.0)])
    assert "tails" not in _us(_account(b))


def test_what_the_power_limit_adds_is_the_clocks() -> None:
    b = TimelineBuilder()
    b.chain([replace(FREE_OF_CLOCK, throttled_s=20e-6)])
    assert _us(_account(b)) == {"peak": 10.0, "clock": 20.0, "library": 70.0}


def test_what_a_step_must_move_is_not_lost() -> None:
    # y = relu(x): x is there before the step, y outlives it; both must cross device memory.
    nbytes = round(BANDWIDTH * 45e-6)
    x, y = spec(nbytes // 2, storage=1), spec(nbytes // 2, storage=2)
    held = (Storage(1, nbytes, "input", -1, None), Storage(2, nbytes, "activation", 0, None))
    b = TimelineBuilder()
    b.op("aten::relu", inputs=(x,), outputs=(y,))
    b.chain([streaming(100, of_bandwidth=0.9)], op=0)
    program = Program("relu", tuple(b.ops), storages=held)
    found = _us(_account(b, program=program))
    assert found["peak"] == pytest.approx(90.0, abs=0.01)
    assert found["pointwise"] == pytest.approx(10.0, abs=0.01)
    # The same kernel on values that come and go within the step could be fused away.
    inner = tuple(replace(s, born=0, died=0) for s in held)
    assert "peak" not in _us(_account(b, program=replace(program, storages=inner)))


def test_a_run_that_does_not_tell_its_work_has_no_best_time() -> None:
    b = TimelineBuilder()
    b.chain([kernel(50)])
    found = _account(b)
    assert found.best_s is None
    assert found.distance_s is None
    assert _us(found) == {"pointwise": 50.0}


@given(st.lists(st.tuples(st.floats(1, 500), st.floats(0.05, 1), st.integers(1, 900)), min_size=1))
def test_the_terms_add_up_and_none_is_negative(rows: list[tuple[float, float, int]]) -> None:
    b = TimelineBuilder()
    costs: list[Kernel] = []
    for time_us, share, grid in rows:
        costs.append(matmul(time_us, of_peak=share, grid=grid, waves=grid / UNITS))
        costs.append(streaming(time_us, of_bandwidth=share))
    b.chain(costs, gap_us=2.0)
    assert all((term.time_s or 0.0) >= 0 for term in _account(b).terms)


def test_idle_units_by_hand() -> None:
    import numpy as np

    found = idle_units(np.array([0.0, 33.0, 132.0, 198.0, 264.0]), 132)
    assert found.tolist() == pytest.approx([0.0, 0.75, 0.0, 0.25, 0.0])


@pytest.mark.parametrize("name", ["h200/compute_bound", "h200/graph_decode", "4xh200/fsdp"])
def test_recordings_say_what_they_cannot_tell(name: str) -> None:
    found = load(TRACES / name).analysis.account
    assert found is not None
    assert sum(t.time_s or 0.0 for t in found.terms) == pytest.approx(found.step_s, rel=1e-9)
    assert next(t.time_s for t in found.terms if t.key == "clock") is None
    assert (found.best_s is None) == (name == "h200/graph_decode")


def test_kernel_groups_have_their_part_of_each_term() -> None:
    b = TimelineBuilder()
    first = replace(FREE_OF_CLOCK, grid=UNITS * 3 // 2, waves=1.5)
    b.chain([first, first, streaming(30, 0.5)])
    found = _account(b)
    sums = dict.fromkeys(TERMS, 0.0)
    for own in found.by_group.values():
        for key, time_s in own.items():
            sums[key] += time_s
    own = {term.key: term.time_s or 0.0 for term in found.terms if term.key != "idle"}
    assert {key: sums[key] for key in own} == pytest.approx(own)
    assert found.by_group[group_key(first)]["tails"] == pytest.approx(50e-6)
    assert len(found.by_group) == 2
