"""Host constants: measured calls directly, others by the ratio, terms of programs by known ones."""

from __future__ import annotations

import numpy as np
import pytest

from gpuscope.hardware import Calibration, calibration_for, device
from gpuscope.measurement.bench.types import Point
from gpuscope.measurement.calibrate.host_constants import host_constants
from gpuscope.measurement.calibrate.host_terms import (
    FAR,
    INSTRUCTION_S,
    PYTHON,
    TERMS,
    host_terms,
    not_negative,
    program_work,
    python_instruction_s,
    robust,
    solved,
    unrest,
)

BASE = calibration_for(device("h200"))


def call(family: str, name: str, variant: str, seconds: float, bench: str = "host") -> Point:
    params = {"name": name, "variant": variant}
    return Point(bench, family, params, "host", seconds, seconds * 0.9, seconds * 1.2)


def test_a_measured_operator_is_taken_as_it_is() -> None:
    found = host_constants([call("op", "add", "no_grad", 8e-6)], BASE)
    entry = found["host.op.add.plain_s"]
    assert (entry.value, entry.origin) == (8e-6, "measured")
    assert entry.low == pytest.approx(7.2e-6)
    assert entry.high == pytest.approx(9.6e-6)


def test_the_rest_is_scaled_by_the_ratio_and_widened() -> None:
    names = ("add", "mul", "sub", "div", "exp")
    points = [call("op", n, "no_grad", 2 * BASE.value(f"host.op.{n}.plain_s")) for n in names]
    found = host_constants(points, BASE)
    carried = found["host.op.convolution.plain_s"]
    assert carried.value == pytest.approx(2 * BASE.value("host.op.convolution.plain_s"))
    assert carried.origin == "estimated"
    assert carried.spread >= BASE.spread("host.op.convolution.plain_s")


def test_differences_by_hand() -> None:
    points = [
        call("optimizer_step", "adamw_foreach", "300", 1.7e-3),
        call("optimizer_step", "adamw_foreach", "100", 0.7e-3),
        call("module", "nn_linear", "grad", 12e-6),
        call("module", "f_linear", "grad", 10.5e-6),
        call("module", "empty_module", "grad", 0.6e-6),
        call("op", "matmul3d2d", "no_grad", 9e-6),
        call("op", "mm", "no_grad", 7.6e-6),
        call("op", "view", "no_grad", 1.5e-6),
    ]
    found = host_constants(points, BASE)
    assert found["host.adamw_foreach.per_parameter_s"].value == pytest.approx(5e-6)
    assert found["host.module_call_s"].value == pytest.approx(1.5e-6)
    assert found["host.view.plain_s"].value == pytest.approx(0.7e-6)


def test_the_profilers_own_cost_is_not_latency() -> None:
    points = [
        call("launch_latency", "add_", "idle", 6e-6, "launch"),
        call("launch_call", "add_", "idle", 5e-6, "launch"),
        call("queue", "add_", "device_saturated", 1.8e-6, "launch"),
        call("launch_gap", "add_", "saturated", 1.1e-6, "launch"),
    ]
    found = host_constants(points, BASE)
    assert found["launch.latency_s"].value == pytest.approx(2.8e-6)
    assert found["launch.gap_s"].value == pytest.approx(1.1e-6)
    assert found["host.launch_s"].value == pytest.approx(1.8e-6)


def test_nothing_measured_is_nothing() -> None:
    assert host_constants([], BASE) == {}
    assert host_terms([], BASE) is None


def test_least_squares_never_go_below_zero() -> None:
    rng = np.random.default_rng(0)
    a = rng.random((40, 3))
    assert not_negative(a, a @ np.array([1.0, 0.0, 2.0])) == pytest.approx([1, 0, 2], abs=1e-9)
    assert not_negative(a, a @ np.array([1.0, -0.5, 2.0])).min() == 0.0


def test_a_row_that_does_not_fit_does_not_bend_the_rest() -> None:
    rng = np.random.default_rng(1)
    a = rng.random((40, 2)) + 0.5
    b = a @ np.array([0.3, 0.7])
    b[0] *= 5
    plain, held = not_negative(a, b), robust(a, b)
    assert abs(held - [0.3, 0.7]).max() < abs(plain - [0.3, 0.7]).max() / 3


def test_terms_of_a_host_that_is_known() -> None:
    """Times made from the captured programs by known terms give the terms back."""
    terms = {"mixed": 1.1, "dispatch": 1.5e-6, "instruction": 12e-9}
    start = {"forward": 2e-5, "backward": 5e-4, "optimizer": 2e-4}
    modes = {"no_grad": "forward", "grad": "forward", "backward": "backward", "step": "optimizer"}
    points = []
    for name in ("mlp8", "mixed", "dressed5_decode"):
        for mode, phase in modes.items():
            work = program_work(name, mode != "no_grad", BASE)[phase]
            seconds = (
                terms["mixed"] * work.single_s
                + terms["dispatch"] * work.operators
                + terms["instruction"] * work.instructions
                + start[phase]
            )
            points.append(call("program", name, mode, seconds))
    found = host_terms(points, BASE)
    assert found is not None
    values = {n: e.value for n, e in found.entries.items()}
    assert values["host.mixed_factor"] == pytest.approx(terms["mixed"], rel=0.1)
    assert values["host.python_instruction_s"] == pytest.approx(terms["instruction"], rel=0.1)
    assert values["host.start.backward_s"] == pytest.approx(start["backward"], rel=0.1)
    assert found.error < 0.02


def test_an_instruction_takes_as_much_longer_as_plain_python() -> None:
    points = [
        call("python", name, "per_iteration", seconds * times)
        for (name, seconds), times in zip(PYTHON.items(), (2.0, 2.5, 9.0), strict=True)
    ]
    assert python_instruction_s(points) == pytest.approx(2.5 * INSTRUCTION_S)
    assert python_instruction_s([]) is None
    assert python_instruction_s([call("op", "add", "no_grad", 1e-6)]) is None


def test_a_fit_that_took_operators_for_python_is_held_to_pythons_speed() -> None:
    """Operators and instructions in step: the times alone cannot tell them apart."""
    rng = np.random.default_rng(2)
    operators = rng.uniform(50, 400, 40)
    rows = np.zeros((40, len(TERMS)))
    rows[:, 0] = operators * 8e-6
    rows[:, 1] = operators
    rows[:, 2] = operators * 300
    seconds = rows @ [1.2, 3e-6, 25e-9, 0, 0, 0]
    free, held = solved(rows, seconds, None), solved(rows, seconds, 25e-9)
    assert not 25e-9 / FAR <= free[2] <= 25e-9 * FAR
    assert held[2] == 25e-9
    for found in (free, held):
        assert rows @ found == pytest.approx(seconds, rel=1e-6)
    assert (solved(rows, seconds, float(free[2]) * 1.2) == free).all()  # near: the fit stays


def test_no_call_is_quicker_between_others_than_by_itself() -> None:
    """Programs that look so (their pace was not that of the calls) leave the factor at 1."""
    rows = np.zeros((40, len(TERMS)))
    rows[:, 0] = np.linspace(1e-3, 5e-3, 40)
    rows[:, 1] = np.random.default_rng(3).uniform(50, 400, 40)
    assert solved(rows, rows @ [0.7, 1e-6, 0, 0, 0, 0], None)[0] == 1.0
    assert solved(rows, rows @ [1.3, 1e-6, 0, 0, 0, 0], None)[0] == pytest.approx(1.3)


def test_dressed_programs_run_more_python_an_operator() -> None:
    constants = Calibration("nvidia-h200-sxm", None, "none")
    bare = program_work("mlp8", False, constants)["forward"]
    dressed = program_work("dressed8_decode", False, constants)["forward"]
    mixed = program_work("mixed", False, constants)["forward"]
    assert dressed.instructions / dressed.operators > 1.5 * mixed.instructions / mixed.operators
    assert bare.operators < dressed.operators


def test_a_restless_host_widens_its_interval() -> None:
    def timed(low: float, high: float) -> Point:
        return Point(
            bench="host",
            family="program",
            params={"name": "x", "variant": "grad"},
            state="host",
            median_s=1.0,
            min_s=low,
            p90_s=high,
            n=9,
        )

    assert unrest([timed(0.99, 1.01)]) == pytest.approx(0.01)
    assert unrest([timed(0.7, 1.3), timed(0.8, 1.2), timed(0.6, 1.4)]) == pytest.approx(0.3)
    assert unrest([]) == 0.0


def test_operators_that_were_not_measured_take_the_median_of_their_class() -> None:
    points = [call("op", n, "no_grad", s) for n, s in (("add", 8e-6), ("mul", 6e-6), ("sub", 9e-6))]
    found = host_constants([*points, call("op", "view", "no_grad", 1e-6)], BASE)
    assert found["host.pointwise.plain_s"].value == 8e-6
    assert found["host.pointwise.plain_s"].origin == "estimated"
    assert found["host.other.plain_s"].value == 8e-6  # a view is not like an unknown operator


def test_a_slower_host_calls_compiled_code_and_collectives_slower_too() -> None:
    points = [
        call("op", n, "no_grad", 1.5 * BASE.value(f"host.op.{n}.plain_s")) for n in ("add", "mul")
    ]
    found = host_constants(points, BASE)
    for name in ("host.compiled.per_kernel_s", "host.op.allreduce.plain_s"):
        assert found[name].value == pytest.approx(1.5 * BASE.value(name))
    nothing_known = host_constants(points, Calibration("nvidia-h200-sxm", None, "none"))
    assert "host.compiled.per_kernel_s" not in nothing_known


def test_launches_of_a_recurrent_layer_are_shared_as_products_and_cells() -> None:
    points = [
        call("op", "add", "no_grad", 6e-6),
        call("op", "mm", "no_grad", 8e-6),
        call("recurrent", "lstm", "16", 1e-4),
        call("recurrent", "lstm", "64", 1e-4 + 96 * 5e-6),
    ]
    found = host_constants(points, BASE)
    assert found["host.further.product_s"].value == pytest.approx(6e-6)
    assert found["host.further.kernel_s"].value == pytest.approx(4e-6)
    assert "host.op.rnn.autograd_s" not in host_constants(points, Calibration("x", None, "none"))
    # 400 us: 31 further launches of 5 us, two states of 6 us, and the layer's own.
    made = [
        call("op", "zeros", "no_grad", 6e-6),
        *points[:2],
        call("recurrent", "lstm", "16", 400e-6),
        call("recurrent", "lstm", "64", 400e-6 + 96 * 5e-6),
    ]
    own = host_constants(made, BASE)["host.op.rnn.autograd_s"]
    assert own.value == pytest.approx((400 - 31 * 5 - 12) * 1e-6)


def test_a_layer_that_is_launched_at_once_says_nothing_of_launches() -> None:
    points = [
        call("op", "add", "no_grad", 6e-6),
        call("op", "mm", "no_grad", 8e-6),
        call("recurrent", "lstm", "16", 1e-4),
        call("recurrent", "lstm", "64", 1e-4 + 1e-6),
    ]
    assert not [name for name in host_constants(points, BASE) if "further" in name]


def test_collectives_are_issued_as_fast_as_they_were() -> None:
    def issued(family: str, seconds: float) -> Point:
        params = {"ranks": 2, "bytes": 4096}
        return Point("collectives", family, params, "host", seconds, seconds, seconds)

    found = host_constants([issued("all_reduce", 30e-6), issued("send_recv", 40e-6)], BASE)
    assert found["host.op.allreduce.plain_s"].value == pytest.approx(30e-6)
    # A batch of one message each way: half for each.
    assert found["host.op.send.plain_s"].value == pytest.approx(20e-6)
    assert found["host.op.recv.plain_s"].value == pytest.approx(20e-6)
