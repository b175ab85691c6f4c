"""Contexts hold for forward passes alone; a backward pass is wrapped once, whoever calls it."""

from __future__ import annotations

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode

from gpuscope.advice.changes.hooks.forward_pass import ForwardPass
from gpuscope.advice.changes.hooks.replaced_names import Replaced


class _Passing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return func(*args, **(kwargs or {}))


def test_once_under_a_function_mode() -> None:
    calls = []
    replaced = Replaced()
    before = torch.Tensor.backward

    def edit(called):  # type: ignore[no-untyped-def]
        return lambda loss, *a, **k: (calls.append(1), called(loss * 2, *a, **k))

    ForwardPass().watch_backward(replaced, [edit])
    x = torch.ones(3, requires_grad=True)
    with _Passing():
        x.sum().backward()
    replaced.undo()
    assert len(calls) == 1
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert torch.Tensor.backward is before


def test_left_for_backward_and_updates_and_entered_again_by_the_next_call() -> None:
    told: list[str] = []

    @contextmanager
    def context():  # type: ignore[no-untyped-def]
        told.append("in")
        yield
        told.append("out")

    forward, replaced = ForwardPass(), Replaced()
    forward.contexts.append(context)
    forward.watch_backward(replaced, [])
    weight = torch.ones(3, requires_grad=True)
    weight.register_hook(lambda gradient: told.append("gradient"))
    called = forward.entering(lambda: (told.append("call"), weight.sum())[1])
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: told.append("update"))
    called().backward()
    called()
    optimizer.step()
    replaced.undo()
    assert told == ["in", "call", "out", "gradient", "in", "call", "out", "update"]


def test_without_contexts_nothing_is_watched() -> None:
    before, replaced = torch.Tensor.backward, Replaced()
    ForwardPass().watch_backward(replaced, [])
    assert torch.Tensor.backward is before
