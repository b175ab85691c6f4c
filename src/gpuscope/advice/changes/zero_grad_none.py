"""Gradients dropped instead of filled with zeros between steps.

`zero_grad(set_to_none=True)` (PyTorch's default since 2.0) frees the gradients' memory for the
forward pass and spares one write of zeros and, in the backward pass, one read for adding to them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["ZeroGradNone"]

_FILLS = frozenset({"aten::zero_", "aten::_foreach_zero_", "aten::fill_"})


class ZeroGradNone(Change):
    """Drop gradients instead of zeroing them."""

    name = "zero-grad-none"
    title = Text("gradients dropped, not zeroed")
    group = "memory"
    rank = 18

    def fits(self, case: ChangeCase) -> Fit:
        """It needs gradients that are filled with zeros."""
        if case.program is None or not case.training:
            why = Text("There is no backward pass.")
            return Fit(False, why, relevant=False)
        filled = _zeroed_bytes(case.program)
        if not filled:
            why = Text("Gradients are dropped already.")
            return Fit(False, why, relevant=False)
        zeroed = Bytes(filled)
        return Fit(
            True,
            Text(
                "{zeroed} of gradients are filled with zeros every step and held meanwhile.",
                zeroed=zeroed,
            ),
        )

    def install(self, live: Live) -> None:
        """Say `set_to_none=True` wherever gradients are cleared."""
        import torch

        for owner in (torch.optim.Optimizer, torch.nn.Module):
            live.set(owner, "zero_grad", _dropping(owner.zero_grad))

    def risk(self, case: ChangeCase) -> Text | None:
        """None instead of zeros."""
        return Text(
            "Code that reads a gradient after clearing it finds None; a parameter without a "
            "gradient is skipped by the optimizer, not decayed."
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
        for op in program.ops
        if op.name in _FILLS
        for spec in op.inputs
        if spec.storage in gradients
    }
    return sum(found.values())


register(ZeroGradNone())
