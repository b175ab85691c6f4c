"""The step by the model's own parts."""

from __future__ import annotations

from gpuscope.analysis import fold_layers
from gpuscope.analysis.types import ModuleShare
from gpuscope.document.blocks import Bar, Bars, Part
from gpuscope.document.text import Text
from gpuscope.run import Run

_LEAST_SHARE = 0.005
_MOST = 18


def modules(run: Run) -> Bars | None:
    """Return the module tree as deep as it fits, equal layers as one bar."""
    step_s = run.analysis.step_s
    folded = [m for m in fold_layers(run.analysis.modules) if m.time_s > _LEAST_SHARE * step_s]
    chosen = _fitting(folded)
    if not chosen:
        return None
    return Bars(
        Text("Device time by module"),
        "s",
        tuple(map(_bar, chosen)),
        note=Text("With what is inside a module; equal layers are one bar (×12: twelve)."),
    )


def _fitting(rows: list[ModuleShare]) -> list[ModuleShare]:
    """The deepest cut of the tree that has few enough rows."""
    for depth in range(max((row.depth for row in rows), default=0), -1, -1):
        cut = [row for row in rows if row.depth <= depth]
        if len(cut) <= _MOST:
            return cut
    return rows[:_MOST]


def _bar(row: ModuleShare) -> Bar:
    other_s = max(0.0, row.time_s - row.forward_s - row.backward_s)
    parts = (
        Part(Text("forward"), row.forward_s, "compute"),
        Part(Text("backward"), row.backward_s, "memory"),
        Part(Text("optimizer and other"), other_s, "launch"),
    )
    times = f" ×{row.count}" if row.count > 1 else ""
    name = (row.path or row.class_name or "model") + times
    return Bar(name, tuple(part for part in parts if part.value > 0))
