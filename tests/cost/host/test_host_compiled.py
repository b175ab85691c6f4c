"""The host inside of compiled code: by calls, parameters, gradients and launches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.cost.host.compiled import CompiledHost
from gpuscope.cost.registry import Constants
from gpuscope.hardware import calibration_for, device
from gpuscope.program.fusion import FUSED
from gpuscope.program.types import Op, Phase, Program, Storage, TensorSpec

CONSTANTS = Constants(calibration_for(device("h200")))
CALL_S, GUARD_S, SAVE_S, GRADIENT_S, KERNEL_S = (
    CONSTANTS.value("host.scale") * CONSTANTS.value(f"host.compiled.{name}_s")
    for name in ("call", "guard", "save", "gradient", "per_kernel")
)
TRAIN_S = {
    p: CONSTANTS.value("host.scale") * CONSTANTS.value(f"host.compiled.{p}_s")
    for p in ("forward", "backward")
}


def program(calls: int, parameters: int, *, train: bool, region: bool = True) -> Program:
    """`calls` compiled calls of one kernel each, that read `parameters` parameters each."""

    def spec(number: int) -> TensorSpec:
        return TensorSpec((64,), (1,), "float32", "device", number)

    ops: list[Op] = []
    phases: tuple[Phase, ...] = ("forward", "backward") if train else ("forward",)
    for phase in phases:
        for call in range(calls):
            inputs = tuple(spec(call * parameters + n) for n in range(parameters))
            ops.append(
                Op(len(ops), FUSED, inputs=inputs, phase=phase, region=call + 1 if region else 0)
            )
    stores = tuple(Storage(n, 256, "parameter", -1, None) for n in range(calls * parameters))
    return Program("p", tuple(ops), stores, compiled="default")


def total_s(made: Program, gradients: int = 0) -> float:
    host = CompiledHost(CONSTANTS, made, gradients)
    costs = [host.cost(op, 1) for op in made.ops if host.covers(op)]
    assert len(costs) == len(made.ops)
    return sum(c.before_s + c.per_launch_s for c in costs)


def test_an_inference_call_pays_guards_and_its_kernel() -> None:
    assert total_s(program(1, 10, train=False)) == pytest.approx(CALL_S + 10 * GUARD_S + KERNEL_S)


def test_a_training_call_pays_for_what_it_saves_and_for_each_gradient() -> None:
    once = TRAIN_S["forward"] + TRAIN_S["backward"] + 2 * KERNEL_S
    each = GUARD_S + SAVE_S + GRADIENT_S
    assert total_s(program(1, 10, train=True)) == pytest.approx(once + 10 * each)


def test_blocks_compiled_one_by_one_pay_for_every_call() -> None:
    whole, parts = program(1, 120, train=True), program(12, 10, train=True)
    calls = 11 * (sum(TRAIN_S.values()) + 2 * KERNEL_S)
    assert total_s(parts) - total_s(whole) == pytest.approx(calls)


def test_a_step_without_marks_is_one_call_with_all_gradients() -> None:
    made = program(1, 0, train=True, region=False)
    each = GUARD_S + SAVE_S + GRADIENT_S
    assert total_s(made, 10) - total_s(made, 0) == pytest.approx(10 * each)


def test_eager_code_beside_a_compiled_call_is_not_covered() -> None:
    made = program(1, 4, train=False)
    eager = replace(made.ops[0], index=1, name="aten::add", region=0)
    host = CompiledHost(CONSTANTS, replace(made, ops=(*made.ops, eager)), 0)
    assert not host.covers(eager)
    waits = replace(made.ops[0], sync="item")
    assert not host.covers(waits)
