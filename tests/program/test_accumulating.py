"""Gradients that meet: added in place where nothing else holds their sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
