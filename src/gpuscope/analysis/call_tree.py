"""Two runs by their call tree: modules with all that they call, where the two differ.

`compare`'s table of modules tells what is each module's own and adds up. Here a module's time holds
its children's, so that one follows a difference down from the model to the part that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuscope.analysis.types import ModuleShare

LEAST = 0.02
"""A part whose time differs by less than this share of the longer step is not shown."""

_MOST = 40


@dataclass(frozen=True, slots=True)
class CallDifference:
    """One module in both runs, its children's time included.

    Attributes:
        path: as in the module tree; "" for the model.
        depth: how deep it lies among those shown.
        a_s, b_s: seconds per step; 0 where a run has no such module.
        difference_s: b_s - a_s.
    """

    path: str
    depth: int
    a_s: float
    b_s: float
    difference_s: float


def call_tree(
    a: Sequence[ModuleShare], b: Sequence[ModuleShare], step_s: float
) -> tuple[CallDifference, ...]:
    """Return the modules that differ, depth first, each below the one that calls it.

    Args:
        a, b: the module trees (`Analysis.modules`).
        step_s: the longer of the two steps, against which a difference counts.
    """
    times: dict[str, list[float]] = {}
    for side, modules in enumerate((a, b)):
        for module in modules:
            times.setdefault(module.path, [0.0, 0.0])[side] += module.time_s
    least = LEAST * step_s
    large = {path for path, (one, two) in times.items() if abs(two - one) >= least}
    shown: list[CallDifference] = []
    for path in sorted(large, key=_natural):
        one, two = times[path]
        above = sum(path != other and _within(path, other) for other in large)
        shown.append(CallDifference(path, above, one, two, two - one))
    return tuple(shown[:_MOST])


def _within(path: str, other: str) -> bool:
    return not other or path.startswith(f"{other}.")


def _natural(path: str) -> list[tuple[int, int, str]]:
    """A key by which a module comes before its children, and "layers.2" before "layers.10"."""
    parts = path.split(".") if path else []
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
