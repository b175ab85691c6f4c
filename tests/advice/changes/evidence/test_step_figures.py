"""Figures that reasons give: known by hand for a small program."""

import torch

from gpuscope.advice.changes.evidence.step_figures import (
    compiled_operators,
    growing_cache,
    kind_s,
    percent,
    product_dtypes,
    waits_for_host_s,
)
from gpuscope.advice.types import ChangeCase
from gpuscope.api import predict, resolve_target
from gpuscope.capturing import capture


def _many():
    x = torch.randn(8, 8, device="cuda")

    def step():
        y = x
        for _ in range(50):
            y = (y @ x).relu()
        return y

    return step


def test_a_step_of_tiny_kernels_waits_for_the_host():
    program = capture(_many)
    case = ChangeCase(predict(program, "h200"), resolve_target("h200"), program)
    waits_s = waits_for_host_s(case)
    assert 0.3 * case.analysis.step_s < waits_s <= case.analysis.step_s
    assert compiled_operators(case) == 100
    assert product_dtypes(case) == {"float32"}
    assert 0 < kind_s(case, "matmul") < kind_s(case, "matmul", "pointwise") < case.analysis.step_s
    assert not growing_cache(case)


def test_figures_in_words():
    assert str(percent(1, 8)) == "12 %"
    assert str(percent(0, 0)) == "0 %"
