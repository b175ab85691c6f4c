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
from gpuscope.advice.types import NO_CODE, Case, Edit, Fit, Seen
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["GroupedExperts"]


class GroupedExperts(Change):
    """Multiply all experts' tokens in one launch."""

    name = "grouped-experts"
    title = Words("grouped products for experts", "专家的分组矩阵乘")
    group = "operators"
    numerics = "reordered"
    rank = 30

    def fits(self, case: Case) -> Fit:
        """It needs a model of transformers whose experts run in a loop."""
        if case.program is None or case.seen is None:
            return NO_CODE
        if any(m.experts == "eager" for m in case.seen.models):
            waits = sum(op.sync == "nonzero" for op in case.program.ops)
            return Fit(
                True,
                Words(
                    f"Experts run one after another, and the host waits {waits} times a step to"
                    " learn how many tokens each one gets.",
                    f"专家逐个运行，主机每步等待 {waits} 次才知道各专家分到多少词元。",
                ),
            )
        if any(m.experts for m in case.seen.models):
            how = next(m.experts for m in case.seen.models if m.experts)
            return Fit(False, Words(f'Experts run as "{how}" already.', f'专家已按 "{how}" 运行。'))
        loops = [c for m in case.seen.models for c in m.classes if "expert" in c.lower()]
        if loops or any("moe" in c.lower() for m in case.seen.models for c in m.classes):
            why = Words(
                "The model's own experts cannot be told to run grouped.",
                "模型自己的专家代码没有开关可以改成分组。",
            )
            return Fit(False, why)
        return Fit(False, Words("There are no experts.", "没有专家层。"), relevant=False)

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
                f"{type(module).__name__} cannot run its experts grouped.",
                str(error).splitlines()[0], "Use torch 2.9 or later.",
            ) from None  # fmt: skip
    if any(_still_loops(module) for module in root.modules()):
        raise UnsupportedError(
            f"{type(root).__name__} cannot run its experts grouped.",
            "Its class does not let them be chosen after it was made.",
            'Make the model with experts_implementation="grouped_mm".',
        )


def _still_loops(module: Any) -> bool:
    experts = hasattr(module, "is_transposed") and hasattr(module, "has_gate")
    return experts and getattr(module.config, "_experts_implementation", None) == "eager"


register(GroupedExperts())
