"""A plan for each new length of a cache: once a step, cuDNN's alone, on the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpuscope import predict  # noqa: E402
from gpuscope.capturing import capture  # noqa: E402
from gpuscope.cost.attention.plans import TOLD  # noqa: E402
from gpuscope.cost.engine import cost_program  # noqa: E402
from gpuscope.hardware import calibration_for, device  # noqa: E402
from gpuscope.program.growing import ANEW  # noqa: E402
from gpuscope.program.types import Program  # noqa: E402

LAYERS = 3


def decoding(backend: Any = None) -> Program:
    def build() -> Any:
        before = torch.randn(1, 4, 64, 64, device="cuda", dtype=torch.bfloat16)
        state = [before] * LAYERS

        def step() -> Any:
            token = torch.randn(1, 4, 1, 64, device="cuda", dtype=torch.bfloat16)
            for layer in range(LAYERS):
                state[layer] = torch.cat([state[layer], token], dim=-2)
                keys = state[layer]
                with (
                    torch.nn.attention.sdpa_kernel(
                        backend
                        or [
                            torch.nn.attention.SDPBackend.FLASH_ATTENTION,
                            torch.nn.attention.SDPBackend.CUDNN_ATTENTION,
                        ]
                    ),
                    torch.no_grad(),
                ):
                    token = torch.nn.functional.scaled_dot_product_attention(token, keys, keys)
            return token

        return step

    return capture(build)


KNOWN = calibration_for(device("h200"))
PLAN_S = KNOWN.value("host.scale") * KNOWN.value("host.attention_plan_s")


def attention_s(program: Program, on: str = "h200") -> list[float]:
    costed = cost_program(program, device(on))
    return [c.host.before_s for c in costed.ops if c.op.name.endswith("::attention")]


def test_the_first_layer_plans_for_all() -> None:
    program = decoding()
    assert program.settings[ANEW]
    first, *others = attention_s(program)
    assert first > 0.5 * PLAN_S
    assert max(others) < 1.5e-3
    plain = attention_s(replace(program, settings={}))
    assert max(plain) < 1.5e-3
    assert first - plain[0] == pytest.approx(PLAN_S, rel=0.2)


def test_other_kernels_need_no_plan() -> None:
    flash = decoding([torch.nn.attention.SDPBackend.FLASH_ATTENTION])
    assert max(attention_s(flash)) < 1.5e-3
    assert max(attention_s(decoding(), "a100")) < 1.5e-3  # PyTorch takes FlashAttention there


def test_the_step_waits_for_it_and_is_told() -> None:
    program = decoding()
    run = predict(program, on="h200")
    without = predict(replace(program, settings={}), on="h200")
    assert run.step_time_s - without.step_time_s == pytest.approx(PLAN_S, rel=0.2)
    assert TOLD in run.assumptions
    assert TOLD not in without.assumptions
