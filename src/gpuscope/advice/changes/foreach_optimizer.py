"""A foreach optimizer: a few kernels over lists of parameters instead of several for each one.

`foreach=True` (PyTorch's `torch.optim` documentation) is the default for parameters on a GPU; a
loop over parameters, which code asks for with `foreach=False`, launches ten or so small kernels
for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.source.edits import call_keyword
from gpuscope.advice.types import ChangeCase, Edit, Fit, OptimizerSeen, Seen
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["ForeachOptimizer"]


class ForeachOptimizer(Change):
    """Update lists of parameters at once."""

    name = "foreach-optimizer"
    title = Text("foreach optimizer")
    group = "operators"
    numerics = "reordered"
    excludes = frozenset({"fused-optimizer"})
    rank = 20

    def fits(self, case: ChangeCase) -> Fit:
        """It needs an optimizer that was told to go through its parameters one by one."""
        if case.seen is None or not case.seen.optimizers:
            return Fit(False, Text("There is no optimizer."), relevant=False)
        slow = [o for o in case.seen.optimizers if loops(o)]
        if not slow:
            why = Text("The optimizer updates its parameters in groups already.")
            return Fit(False, why, relevant=False)
        names = ", ".join(sorted({o.class_name for o in slow}))
        return Fit(
            True,
            Text(
                "{names} was told foreach=False: it updates one parameter after another.",
                names=names,
            ),
        )

    def install(self, live: Live) -> None:
        """Say `foreach=True` where the optimizer is made."""

        def edit(cls: type, keywords: dict[str, Any]) -> None:
            if keywords.get("foreach") is False and not keywords.get("fused"):
                keywords["foreach"] = True

        live.on_optimizer(edit)

    def price(self, case: ChangeCase) -> Text | None:
        """Lists of intermediates live at the same time."""
        return Text("Some memory for a moment: intermediates of all parameters at once.")

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`foreach=True` in the call."""
        found = [
            call_keyword(sources, o.site, o.class_name, "foreach", "True")
            for o in seen.optimizers
            if loops(o)
        ]
        return tuple(e for e in found if e) if found and all(found) else None


def loops(optimizer: OptimizerSeen) -> bool:
    """Whether it was told to go through its parameters one by one."""
    return optimizer.keywords.get("foreach") is False and not optimizer.keywords.get("fused")


register(ForeachOptimizer())
