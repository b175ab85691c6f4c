"""Programs made of captured ones are those that a capture of the changed code gives."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gpuscope as gs
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.compiled_programs import with_compiled_optimizer
from gpuscope.advice.registry import find, plan
from gpuscope.program.types import OPTIMIZER_ISSUED

GRAPHS = "compile-reduce-overhead"


def _build():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    model = model.cuda()
    halves = [list(layer.parameters()) for layer in (model[0], model[2])]
    # Two optimizers: each step is a compiled call of its own.
    optimizers = [torch.optim.AdamW(halves[0]), torch.optim.SGD(halves[1], momentum=0.9)]
    x = torch.randn(16, 64, device="cuda")

    def step():
        for optimizer in optimizers:
            optimizer.zero_grad()
        model(x).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()

    return step


@pytest.fixture(scope="module")
def captured():
    """The build's program by names of changes, with all that a step's work follows from."""
    known = {}

    def of(*names):
        if names not in known:
            live = Live(plan(names))
            try:
                known[names] = gs.capture(live.wrap(_build))
            finally:
                live.close()
        return known[names]

    return of


def _work(program):
    """The program without the Python between operators, which our own hooks add to."""
    ops = tuple(replace(op, python_calls=0, python_instructions=0) for op in program.ops)
    return replace(program, ops=ops, capture_s=0.0)


@pytest.mark.parametrize("name", [GRAPHS, "compile-max-autotune"])
def test_another_mode_marks_the_same_calls(captured, name):
    change = find(name)
    assert _work(change.transform(captured(change.variant_of))) == _work(captured(name))


def test_a_compiled_optimizer_adds_its_marks_to_those_of_a_compiled_model(captured):
    change = find("compile-optimizer")
    alone = captured("compile-optimizer")
    for other in ("compile", GRAPHS):
        made = change.again(captured(), alone, captured(other))
        assert _work(made) == _work(captured(other, "compile-optimizer"))
    regions = {op.region for op in made.ops if op.phase == "optimizer"}
    assert len(regions) == 2
    assert min(regions) > max(op.region for op in made.ops if op.phase != "optimizer")


def test_the_ways_to_a_combination_meet(captured):
    alone, compiled = captured("compile-optimizer"), captured("compile")
    first = find(GRAPHS).transform(with_compiled_optimizer(captured(), alone, compiled))
    second = with_compiled_optimizer(captured(), alone, find(GRAPHS).transform(compiled))
    assert first == second


def test_the_model_stays_graphed_when_the_optimizer_is_compiled_without_graphs(captured):
    both = captured(GRAPHS, "compile-optimizer")
    assert both.compiled == "reduce-overhead"
    assert both.settings[OPTIMIZER_ISSUED]
    assert OPTIMIZER_ISSUED not in captured(GRAPHS).settings
    assert OPTIMIZER_ISSUED not in captured("compile", "compile-optimizer").settings
    # A small step is the host's: graphs save the same of it beside either optimizer.
    eager, both_eager, graphs, both_graphs = (
        gs.predict(captured(*names), on="h200").step_time_s
        for names in (
            ("compile",),
            ("compile", "compile-optimizer"),
            (GRAPHS,),
            (GRAPHS, "compile-optimizer"),
        )
    )
    assert graphs < eager
    assert both_eager - both_graphs == pytest.approx(eager - graphs, rel=0.05)


def test_other_operators_of_an_optimizer_are_captured(captured):
    plain, alone = captured(), captured("compile-optimizer")
    assert with_compiled_optimizer(plain, alone, captured("fused-optimizer")) is None
    assert with_compiled_optimizer(plain, alone, alone) is None
