"""Grouped products for experts: all experts of a layer in one launch instead of a Python loop.

A loop over experts gathers each one's tokens (the host waits for the device to learn how many
there are), then launches a few small products for it. `torch._grouped_mm` takes the tokens sorted
by expert and multiplies all groups at once, without the host knowing their sizes. transformers
(5 and later) has both and lets the model be told: `set_experts_implementation("grouped_mm")`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.sdpa import constant_edits
from gpuscope.advice.registry import register
from gpuscope.advice.types import NO_CODE, ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["GroupedExperts"]


class GroupedExperts(Change):
    """Multiply all experts' tokens in one launch."""

    name = "grouped-experts"
    title = Text("grouped products for experts")
    group = "operators"
    numerics = "reordered"
    rank = 30

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a model of transformers whose experts run in a loop."""
        if case.program is None or case.seen is None:
            return NO_CODE
        if any(m.experts == "eager" for m in case.seen.models):
            waits = sum(op.sync == "nonzero" for op in case.program.ops)
            return Fit(
                True,
                Text(
                    "Experts run one after another, and the host waits {waits} times a step to "
                    "learn how many tokens each one gets.",
                    waits=waits,
                ),
            )
        if any(m.experts for m in case.seen.models):
            how = next(m.experts for m in case.seen.models if m.experts)
            return Fit(False, Text('Experts run as "{how}" already.', how=how))
        loops = [c for m in case.seen.models for c in m.classes if "expert" in c.lower()]
        if loops or any("moe" in c.lower() for m in case.seen.models for c in m.classes):
            why = Text("The model's own experts cannot be told to run grouped.")
            return Fit(False, why)
        return Fit(False, Text("There are no experts."), relevant=False)

    def install(self, live: Live) -> None:
        """Tell models of transformers."""
        live.on_model(_tell)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`experts_implementation="grouped_mm"` where it says "eager"."""
        return constant_edits(sources, "experts_implementation", "eager", "grouped_mm")


def _tell(root: Any) -> None:
    for module in root.modules():
        config = getattr(module, "config", None)
        if getattr(config, "_experts_implementation", None) != "eager":
            continue
        if not hasattr(module, "set_experts_implementation"):
            continue
        try:
            module.set_experts_implementation("grouped_mm")
        except (ValueError, ImportError, RuntimeError) as error:
            raise UnsupportedError(
                Text("{name} cannot run its experts grouped.", name=type(module).__name__),
                str(error).splitlines()[0],
                Text("Use torch 2.9 or later."),
            ) from None
    if any(_still_loops(module) for module in root.modules()):
        raise UnsupportedError(
            Text("{name} cannot run its experts grouped.", name=type(root).__name__),
            Text("Its class does not let them be chosen after it was made."),
            Text('Make the model with experts_implementation="grouped_mm".'),
        )


def _still_loops(module: Any) -> bool:
    experts = hasattr(module, "is_transposed") and hasattr(module, "has_gate")
    return experts and getattr(module.config, "_experts_implementation", None) == "eager"


register(GroupedExperts())
