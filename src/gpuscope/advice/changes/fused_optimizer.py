"""A fused optimizer: one kernel over many parameters instead of several passes over each.

`fused=True` (PyTorch's `torch.optim` documentation) reads parameter, gradient and state once and
writes them once; the default for CUDA tensors, `foreach`, makes a list kernel of each elementary
operation, so the states move several times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.source.edits import call_keyword
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["FusedOptimizer"]

_HAVE_FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})


class FusedOptimizer(Change):
    """Update all parameters in one kernel."""

    name = "fused-optimizer"
    title = Text("fused optimizer")
    group = "operators"
    numerics = "reordered"
    rank = 20

    def fits(self, case: ChangeCase) -> Fit:
        """It needs an optimizer that has a fused form, and is not told so yet."""
        if case.seen is None or not case.seen.optimizers:
            return Fit(False, Text("There is no optimizer."), relevant=False)
        able = [o for o in case.seen.optimizers if o.class_name in _HAVE_FUSED]
        if not able:
            names = ", ".join(sorted({o.class_name for o in case.seen.optimizers}))
            return Fit(False, Text("{names} has no fused form.", names=names))
        if all(o.keywords.get("fused") for o in able):
            return Fit(False, Text("The optimizer is fused already."))
        if any(m.sparse for m in case.seen.models):
            why = Text("An embedding makes sparse gradients, which fused optimizers refuse.")
            return Fit(False, why)
        if all(o.keywords.get("differentiable") for o in able):
            why = Text("A differentiable optimizer cannot be fused.")
            return Fit(False, why)
        return Fit(True, Text("The optimizer reads its states several times a step."))

    def install(self, live: Live) -> None:
        """Say `fused=True` where the optimizer is made."""

        def edit(cls: type, keywords: dict[str, Any]) -> None:
            if cls.__name__ in _HAVE_FUSED and not keywords.get("differentiable"):
                keywords["fused"] = True
                keywords.pop("foreach", None)

        live.on_optimizer(edit)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`fused=True` in the call."""
        found = [
            call_keyword(sources, o.site, o.class_name, "fused", "True")
            for o in seen.optimizers
            if o.class_name in _HAVE_FUSED and not o.keywords.get("fused")
        ]
        return tuple(e for e in found if e) if found and all(found) else None


register(FusedOptimizer())
