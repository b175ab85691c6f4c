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
from gpuscope.advice.changes.evidence.compilation_fit import cannot_compile
from gpuscope.advice.changes.evidence.step_figures import kind_s, percent
from gpuscope.advice.changes.transforms.compiled_programs import with_compiled_optimizer
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["CompileOptimizer"]


class CompileOptimizer(Change):
    """Compile the optimizer's step."""

    name = "compile-optimizer"
    title = Text("torch.compile of the optimizer's step")
    group = "compilation"
    numerics = "reordered"
    excludes = frozenset({"fused-optimizer"})
    rank = 80

    def fits(self, case: ChangeCase) -> Fit:
        """It needs an optimizer that is not fused."""
        if case.seen is not None and not case.seen.optimizers:
            return Fit(False, Text("There is no optimizer."), relevant=False)
        if case.program is not None and case.program.compiled:
            against = None
        else:
            against = cannot_compile(case)
        if against is not None:
            return against
        if case.seen is not None and all(o.keywords.get("fused") for o in case.seen.optimizers):
            return Fit(False, Text("The optimizer is fused already."))
        if _scaled(case):
            return Fit(
                False, Text("A gradient scaler decides on the host whether the step is taken.")
            )
        spent_s, step_s = kind_s(case, "optimizer"), case.analysis.step_s
        return Fit(
            True,
            Text(
                "The optimizer takes {spent}, {share} of the step, in passes that a "
                "compiler merges.",
                spent=Seconds(spent_s),
                share=percent(spent_s, step_s),
            ),
        )

    def install(self, live: Live) -> None:
        """Compile the step of each optimizer once it is made."""
        import torch

        def use(optimizer: Any) -> None:
            live.set(optimizer, "step", torch.compile(optimizer.step))

        live.on_optimizer_made(use)

    def again(self, plain: Program, alone: Program, other: Program) -> Program | None:
        """Marks on the optimizer's operators, whatever else was changed."""
        return with_compiled_optimizer(plain, alone, other)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`optimizer.step = torch.compile(optimizer.step)` after each optimizer is made."""
        from gpuscope.advice.source.edits import after_statement

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

    def price(self, case: ChangeCase) -> Text:
        """Compilation of the step."""
        return Text("Compiles in the first step; the more parameters, the longer.")


def _assigned_at(text: str, line: int) -> str | None:
    """The name, or the attribute, that the statement at a line gives its one value to."""
    from gpuscope.advice.source.edits import source_of, statement_at

    node = statement_at(text, line)
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    target = node.targets[0]
    if not isinstance(target, (ast.Name, ast.Attribute)) or not isinstance(node.value, ast.Call):
        return None
    called = node.value.func
    last = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return source_of(text, target) if last[:1].isupper() else None


def _scaled(case: ChangeCase) -> bool:
    named = case.program is not None and any("_amp_" in op.name for op in case.program.ops)
    return named or (case.seen is not None and case.seen.scaler)


register(CompileOptimizer())
