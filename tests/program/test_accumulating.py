"""Gradients that meet: added in place where nothing else holds their sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from captured import of, one

from gpuscope.program.capture import capture


def _additions(loss_of: Callable[[Any], Any]) -> list[str]:
    """Names of the additions of the backward pass."""

    def build() -> Callable[[], object]:
        x = torch.randn(64, 64, device="cuda", requires_grad=True)

        def step() -> None:
            x.grad = None
            loss_of(x * 1.0).backward()

        return step

    program = capture(build)
    return [o.name for o in program.ops if o.phase == "backward" and "::add" in o.name]


def test_a_sum_that_the_engine_alone_holds_is_overwritten() -> None:
    found = _additions(lambda h: (h.sigmoid() * h.tanh() * h.exp()).sum())
    assert found == ["aten::add_", "aten::add_"]


def test_a_gradient_that_another_branch_still_needs_is_kept() -> None:
    # The sum's gradient goes to both of its terms as it is, and ReLU's waits when sigmoid's comes.
    def loss(h: Any) -> Any:
        first, second = h.relu(), h.sigmoid()
        return ((h + first).exp() * second).sum()

    assert _additions(loss) == ["aten::add", "aten::add_"]


def test_a_formula_of_its_own_is_left_alone() -> None:
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
            return grad * 2.0 + grad * 3.0

    assert _additions(lambda h: Own.apply(h).sum()) == ["aten::add"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x, j: x.gather(1, j), "scatter_add_"),
        (lambda x, j: x.index_select(0, j[0]), "index_add_"),
        (lambda x, j: x.max(1)[0], "scatter_"),
        (lambda x, j: x.take(j), "put_"),
        (lambda x, j: x.masked_select(x > 0), "masked_scatter_"),
    ],
)
def test_a_gradient_is_put_into_zeros_in_place(call, expected):
    def build():
        x = torch.randn(8, 4, device="cuda", requires_grad=True)
        j = torch.zeros(8, 2, dtype=torch.int64, device="cuda")
        return lambda: call(x, j).sum().backward()

    program = of(build)
    put = one(program, expected)
    zeros = next(op for op in program.ops[: put.index][::-1] if "zeros" in op.name)
    assert put.outputs[0].storage == zeros.outputs[0].storage


def test_what_python_puts_into_zeros_is_copied():
    class Scattered(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, j):
            ctx.save_for_backward(x, j)
            return x.gather(1, j)

        @staticmethod
        def backward(ctx, grad):
            x, j = ctx.saved_tensors
            return torch.zeros_like(x).scatter_add(1, j, grad), None

    def build():
        x = torch.randn(8, 4, device="cuda", requires_grad=True)
        j = torch.zeros(8, 2, dtype=torch.int64, device="cuda")
        return lambda: Scattered.apply(x, j).sum().backward()

    assert one(of(build), "scatter_add")
