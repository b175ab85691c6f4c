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
from gpuscope.advice.changes.transforms.compilation import losses_named
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text, joined
from gpuscope.program.types import GraphBreak

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["GraphBreaks"]

_NAMELESS = "LMHeadModel"
"""Models of such a name are not in transformers' table of losses (GPT-2's is one)."""


class GraphBreaks(Change):
    """Remove causes of graph breaks that are known."""

    name = "graph-breaks"
    title = Text("known causes of graph breaks removed")
    group = "compilation"
    rank = 79

    def fits(self, case: ChangeCase) -> Fit:
        """Compiled code that breaks for a cause which can be removed from outside."""
        if case.program is None or case.program.compiled in ("", "cudagraphs"):
            why = Text("Nothing is compiled.")
            return Fit(False, why, relevant=False)
        nameless = case.seen is not None and any(
            m.module.startswith("transformers.") and m.class_name.endswith(_NAMELESS)
            for m in case.seen.models
        )
        if nameless:
            return Fit(
                True,
                Text("transformers warns of a loss without a name while it is compiled: a break."),
            )
        breaks = case.program.graph_breaks
        if not breaks:
            return Fit(False, Text("No graph break."), relevant=False)
        lines = joined([_line(each) for each in breaks], "; ")
        return Fit(
            False,
            Text(
                "The breaks are in the code's own lines, to be changed by hand: {lines}.",
                lines=lines,
            ),
        )

    def install(self, live: Live) -> None:
        """Name the loss."""
        live.on_model(losses_named)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """One line after the model."""
        return after_each_model(sources, seen, '{name}.loss_type = "ForCausalLM"\n')


def _line(found: GraphBreak) -> Text:
    """Where a break is, why, and how often."""
    line = joined([found.site or Text("a line"), found.reason], ": ")
    return (
        line if found.count == 1 else Text("{line} ({count} times)", line=line, count=found.count)
    )


register(GraphBreaks())
