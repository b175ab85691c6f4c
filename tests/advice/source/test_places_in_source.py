"""Where the model stands ready, and where a step's forward pass begins and ends."""

from __future__ import annotations

from textwrap import dedent

import pytest

from gpuscope.advice.source.places import (
    Forward,
    Placed,
    forward_of,
    function_named,
    model_at,
    step_of,
)

TEXT = dedent("""\
    import torch

    class Net:
        def __init__(self):
            self.model = torch.nn.Linear(1, 1)
            self.model.to("cuda")
            self.x = 1

    def build():
        model = Net(
            4,
        ).cuda()
        model.train()
        model = model.to(memory_format=torch.channels_last)
        opt = torch.optim.SGD(model.parameters())
        model = torch.compile(model)

        def step():
            opt.zero_grad()
            x = next(batches).to("cuda")
            out = model(x)
            loss = (
                out.sum()
            )
            loss.backward()
            opt.step()

        return step
    """)


def test_a_model_stands_ready_after_it_was_moved() -> None:
    assert model_at(TEXT, "f.py:10") == Placed("model", 10, 14)
    assert model_at(TEXT, "f.py:11") == Placed("model", 10, 14)
    assert model_at(TEXT, "f.py:5") == Placed("self.model", 5, 6)
    assert model_at(TEXT, "f.py:2") is None
    assert model_at(TEXT, "") is None


def test_the_step_that_a_build_returns() -> None:
    assert (found := step_of(TEXT, "build")) is not None
    assert (found.name, found.lineno) == ("step", 18)
    assert step_of(TEXT, "other") is None
    assert function_named(TEXT, "step") is None  # it is not at the top level


@pytest.mark.parametrize("model", ["", "model"])
def test_the_forward_pass_ends_before_the_backward_pass(model: str) -> None:
    assert forward_of(TEXT, "build", model) == Forward(21, 24, 25)


def _step(*lines: str) -> str:
    return (
        "def build():\n    def step():\n"
        + "".join(f"        {x}\n" for x in lines)
        + ("    return step\n")
    )


def test_forward_and_backward_in_one_expression() -> None:
    text = _step("opt.zero_grad()", "model(x).loss.backward()", "opt.step()")
    assert forward_of(text, "build") == Forward(4, 3, 4, joined=True)


def test_a_scaled_loss_is_no_forward_pass() -> None:
    text = _step("loss = model(x)", "scaler.scale(loss).backward()")
    assert forward_of(text, "build") == Forward(3, 3, 4)


def test_an_accumulated_loss_is_in_its_loop() -> None:
    text = _step("for x in xs:", "    loss = model(x)", "    loss.backward()", "opt.step()")
    assert forward_of(text, "build") == Forward(4, 4, 5)


def test_without_a_backward_pass_it_is_the_whole_step() -> None:
    text = _step("y = model(x)", "return y.argmax()")
    assert forward_of(text, "build") == Forward(3, 4)


def test_a_script_is_searched_as_a_whole() -> None:
    text = "for x in data:\n    loss = model(x)\n    loss.backward()\n"
    assert forward_of(text) == Forward(2, 2, 3)
    assert forward_of("a = 1\n") is None
    assert forward_of("loss.backward()\n") is None
