"""Graph breaks: places where compiled code has to go back to Python.

What stands before and after a break is compiled apart: nothing fuses across it, each part has its
own guards, and where the break reads a value the host waits for the device (PyTorch's "Working with
Graph Breaks"). Only causes that lie outside of the user's own lines can be removed here: the loss
that transformers does not find in its table, and warns of. For the others the lines are named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.changes.compile_model import after_each_model
from gpuscope.advice.compiling import losses_named
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Edit, Fit, Seen
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["GraphBreaks"]

_NAMELESS = "LMHeadModel"
"""Models of such a name are not in transformers' table of losses (GPT-2's is one)."""


class GraphBreaks(Change):
    """Remove causes of graph breaks that are known."""

    name = "graph-breaks"
    title = Words("known causes of graph breaks removed", "消除已知的图断点")
    group = "compilation"
    rank = 79

    def fits(self, case: Case) -> Fit:
        """Compiled code that breaks for a cause which can be removed from outside."""
        if case.program is None or case.program.compiled in ("", "cudagraphs"):
            why = Words("Nothing is compiled.", "没有编译的代码。")
            return Fit(False, why, relevant=False)
        nameless = case.seen is not None and any(
            m.module.startswith("transformers.") and m.class_name.endswith(_NAMELESS)
            for m in case.seen.models
        )
        if nameless:
            return Fit(
                True,
                Words(
                    "transformers warns of a loss without a name while it is compiled: a break.",
                    "编译时 transformers 因损失类型未命名而告警，造成一次图断点。",
                ),
            )
        breaks = case.program.graph_breaks
        if not breaks:
            return Fit(False, Words("No graph break.", "没有图断点。"), relevant=False)
        lines = "; ".join(
            f"{b.site or 'a line'}: {b.reason}" + (f" ({b.count} times)" if b.count > 1 else "")
            for b in breaks
        )
        return Fit(
            False,
            Words(
                f"The breaks are in the code's own lines, to be changed by hand: {lines}.",
                f"断点在代码自己的行中，需要手工修改：{lines}。",
            ),
        )

    def install(self, live: Live) -> None:
        """Name the loss."""
        live.on_model(losses_named)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """One line after the model."""
        return after_each_model(sources, seen, '{name}.loss_type = "ForCausalLM"\n')


register(GraphBreaks())
