"""Reasons for and against compiling, in figures."""

from dataclasses import replace

import pytest
import torch

from gpuscope.advice.changes.evidence.compilation_fit import (
    cannot_compile,
    compile_price,
    compile_why,
)
from gpuscope.advice.types import ChangeCase
from gpuscope.api import predict, resolve_target
from gpuscope.capturing import capture
from gpuscope.document.text import render


@pytest.fixture(scope="module")
def case():
    def build():
        x = torch.randn(4096, 4096, device="cuda")
        return lambda: (x.sin() + 1).cos()

    program = capture(build)
    return ChangeCase(predict(program, "h200"), resolve_target("h200"), program)


def test_all_of_a_pointwise_step_fuses(case):
    why = compile_why(case, graphs=True)
    share = int(why.split(" %")[0])
    assert share > 80
    assert "graphs add little" in why or "waits" in why
    assert "%" in render(why, "zh")


def test_against(case):
    assert cannot_compile(case) is None
    for mode in ("default", "cudagraphs"):
        fit = cannot_compile(replace(case, program=replace(case.program, compiled=mode)))
        assert not fit.applies
    assert not cannot_compile(replace(case, cluster=resolve_target("tpu-v5e"))).applies


def test_price_names_operators(case):
    assert "yours has 3" in compile_price(case, None)
    assert "minutes" in compile_price(case, "max-autotune")
    assert "Graphs" in compile_price(case, "reduce-overhead")
