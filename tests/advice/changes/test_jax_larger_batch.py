"""A JAX step on twice the batch: only where its build function takes one."""

from dataclasses import replace

import gpuscope as gs
from gpuscope.advice.registry import find
from gpuscope.advice.types import ChangeCase
from gpuscope.program.jax.arguments import BuildArguments

CASE = ChangeCase(None, gs.parse_target("h200"), jax=BuildArguments("step.py:build"))


def test_the_function_is_asked_for_twice_of_it():
    change = find("jax-larger-batch")
    case = replace(CASE, jax=BuildArguments("s.py:build", "build", {"batch_size": 12}))
    assert change.fits(case).applies
    assert change.asked(gs.WorkloadOptions(), case.jax).batch == 24
    assert change.work_factor(case) == 2
    assert "def build(batch_size=24)" in str(change.typed(case))


def test_without_an_argument_it_cannot():
    assert not find("jax-larger-batch").fits(CASE).applies
