"""The optimizer's step compiled: its list kernels become a few fused ones.

`torch.compile` of `optimizer.step` (PyTorch's recipe "Compiling the optimizer with torch.compile")
merges an optimizer's passes over parameters, gradients and states. Where the optimizer has a fused
form (`fused=True`), that does the same without a compiler; this is for those that have none.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.compile_reasons import cannot_compile
from gpuscope.advice.evidence import kind_s, milliseconds, percent
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Edit, Fit, Seen
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["CompileOptimizer"]


class CompileOptimizer(Change):
    """Compile the optimizer's step."""

    name = "compile-optimizer"
    title = Words("torch.compile of the optimizer's step", "编译优化器的更新步")
    group = "compilation"
    numerics = "reordered"
    excludes = frozenset({"fused-optimizer"})
    rank = 80

    def fits(self, case: Case) -> Fit:
        """It needs an optimizer that is not fused."""
        if case.seen is not None and not case.seen.optimizers:
            return Fit(False, Words("There is no optimizer.", "没有优化器。"), relevant=False)
        if case.program is not None and case.program.compiled:
            against = None
        else:
            against = cannot_compile(case)
        if against is not None:
            return against
        if case.seen is not None and all(o.keywords.get("fused") for o in case.seen.optimizers):
            return Fit(False, Words("The optimizer is fused already.", "优化器已经是融合的。"))
        if _scaled(case):
            return Fit(
                False,
                Words(
                    "A gradient scaler decides on the host whether the step is taken.",
                    "梯度缩放器要在主机上决定是否更新。",
                ),
            )
        spent_s, step_s = kind_s(case, "optimizer"), case.analysis.step_s
        return Fit(
            True,
            Words(
                f"The optimizer takes {milliseconds(spent_s)}, {percent(spent_s, step_s)} of the"
                " step, in passes that a compiler merges.",
                f"优化器占 {milliseconds(spent_s)}（一步的 {percent(spent_s, step_s)}），"
                "多次遍历可以合并。",
            ),
        )

    def install(self, live: Live) -> None:
        """Compile the step of each optimizer once it is made."""
        import torch

        def use(optimizer: Any) -> None:
            live.set(optimizer, "step", torch.compile(optimizer.step))

        live.on_optimizer_made(use)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`optimizer.step = torch.compile(optimizer.step)` after each optimizer is made."""
        from gpuscope.advice.source import after_statement

        found: list[Edit] = []
        for optimizer in seen.optimizers:
            file, _, line = optimizer.site.rpartition(":")
            name = _assigned_at(sources.get(file, ""), int(line)) if file else None
            if name is None:
                return None
            new = f"{name}.step = torch.compile({name}.step)\n"
            edit = after_statement(file, sources[file], int(line), new, ("import torch",))
            if edit is None:
                return None
            found.append(edit)
        return tuple(dict.fromkeys(found)) or None

    def price(self, case: Case) -> Words:
        """Compilation of the step."""
        return Words(
            "Compiles in the first step; the more parameters, the longer.",
            "第一步要编译；参数张量越多越久。",
        )


def _assigned_at(text: str, line: int) -> str | None:
    """The name, or the attribute, that the statement at a line gives its one value to."""
    from gpuscope.advice.source import source_of, statement_at

    node = statement_at(text, line)
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    target = node.targets[0]
    if not isinstance(target, (ast.Name, ast.Attribute)) or not isinstance(node.value, ast.Call):
        return None
    called = node.value.func
    last = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return source_of(text, target) if last[:1].isupper() else None


def _scaled(case: Case) -> bool:
    named = case.program is not None and any("_amp_" in op.name for op in case.program.ops)
    return named or (case.seen is not None and case.seen.scaler)


register(CompileOptimizer())
