"""Gradients dropped instead of filled with zeros between steps.

`zero_grad(set_to_none=True)` (PyTorch's default since 2.0) frees the gradients' memory for the
forward pass and spares one write of zeros and, in the backward pass, one read for adding to them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.analysis.wording import size
from gpuscope.explain.types import Words
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["ZeroGradNone"]

_FILLS = frozenset({"aten::zero_", "aten::_foreach_zero_", "aten::fill_"})


class ZeroGradNone(Change):
    """Drop gradients instead of zeroing them."""

    name = "zero-grad-none"
    title = Words("gradients dropped, not zeroed", "丢弃梯度而不是清零")
    group = "memory"
    rank = 18

    def fits(self, case: Case) -> Fit:
        """It needs gradients that are filled with zeros."""
        if case.program is None or not case.training:
            why = Words("There is no backward pass.", "没有反向传播。")
            return Fit(False, why, relevant=False)
        filled = _zeroed_bytes(case.program)
        if not filled:
            why = Words("Gradients are dropped already.", "梯度已经是直接丢弃的。")
            return Fit(False, why, relevant=False)
        told = size(filled)
        return Fit(
            True,
            Words(
                f"{told} of gradients are filled with zeros every step and held meanwhile.",
                f"每步都要把 {told} 梯度清零，并一直占用显存。",
            ),
        )

    def install(self, live: Live) -> None:
        """Say `set_to_none=True` wherever gradients are cleared."""
        import torch

        for owner in (torch.optim.Optimizer, torch.nn.Module):
            live.set(owner, "zero_grad", _dropping(owner.zero_grad))

    def risk(self, case: Case) -> Words | None:
        """None instead of zeros."""
        return Words(
            "Code that reads a gradient after clearing it finds None; a parameter without a"
            " gradient is skipped by the optimizer, not decayed.",
            "清零后再读取梯度的代码会得到 None；没有梯度的参数会被优化器跳过，不做权重衰减。",
        )


def _dropping(original: Any) -> Any:
    @functools.wraps(original)
    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        original(self, set_to_none=True)

    return zero_grad


def _zeroed_bytes(program: Program) -> int:
    gradients = {s.id for s in program.storages if s.category == "gradient"}
    found = {
        spec.storage: spec.nbytes
        for op in program.ops if op.name in _FILLS
        for spec in op.inputs if spec.storage in gradients
    }  # fmt: skip
    return sum(found.values())


register(ZeroGradNone())
