"""A JAX step in bfloat16: only where its build function takes a dtype."""

from dataclasses import replace

import gpuscope as gs
from gpuscope.advice.registry import find
from gpuscope.advice.types import ChangeCase
from gpuscope.program.jax.arguments import BuildArguments
from gpuscope.program.types import XLA, Op, Program, TensorSpec

MATRIX = TensorSpec((64, 64), (64, 1), "float32", 0)
PRODUCT = Op(0, "aten::mm", (MATRIX, MATRIX), (MATRIX,))


def _case(dtype="float32", **defaults):
    spec = replace(MATRIX, dtype=dtype)
    program = Program("step", (replace(PRODUCT, inputs=(spec, spec)),), (), engine=XLA)
    jax = BuildArguments("step.py:build", "build", defaults)
    return ChangeCase(None, gs.parse_target("h200"), program, jax=jax)


def test_it_needs_an_argument_and_float32():
    change = find("jax-bfloat16")
    assert change.fits(_case(dtype="float32")).applies is False
    assert change.fits(_case(dtype="float32")).applies is False
    assert not change.fits(_case("bfloat16")).relevant


def test_the_function_is_asked_for_it():
    change, options = find("jax-bfloat16"), gs.WorkloadOptions(batch=3)
    case = _case()
    case = replace(case, jax=BuildArguments("step.py:build", "build", {"dtype": "float32"}))
    assert change.fits(case).applies
    assert change.asked(options, case.jax) == gs.WorkloadOptions(batch=3, dtype="bfloat16")
    assert "--dtype bfloat16" in str(change.typed(case))
    assert 'def build(dtype="float32")' in str(change.fits(_case()).why)
