"""The source lines that the guarded figures of a run come from."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpuscope.analysis.operator_families import operator_family
from gpuscope.timeline.types import DEVICE_KINDS

if TYPE_CHECKING:
    from gpuscope.run import Run

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Who wrote a line since the baseline.

    Attributes:
        id: short hash; "" where the line is not committed yet.
        title: first line of its message.
    """

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a run's figures come from; only of a run at hand, not of the baseline.

    Attributes:
        lines: source lines by operator family, most time first.
        memory: source lines by category of memory, most bytes first.
        breaks: lines at which compiled code goes back to Python.
        findings: by kind: its title, and its lines.
        commits: of the lines that were written since the baseline; those stand first above.
    """

    lines: Mapping[str, Lines] = field(default_factory=dict)
    memory: Mapping[str, Lines] = field(default_factory=dict)
    breaks: Lines = ()
    findings: Mapping[str, tuple[str, Lines]] = field(default_factory=dict)
    commits: Mapping[str, Commit] = field(default_factory=dict)


def sources_of(run: Run, workload: str = "") -> Sources:
    """Return where the guarded figures of a run come from.

    Args:
        run: predicted now.
        workload: as it was named. Captured lines name a file without its folder, annotations need
            that: a file of that name beside the workload's is taken to be the one.
    """
    folder = Path(workload.partition(":")[0]).parent

    def full(lines: Iterable[str]) -> Lines:
        return tuple(
            str(folder / line) if os.path.isfile(folder / line.rpartition(":")[0]) else line
            for line in lines
        )

    program = run.program
    breaks = (each.site for each in program.graph_breaks if each.site) if program else ()
    return Sources(
        lines={name: full(lines) for name, lines in _of_operators(run).items()},
        memory={name: full(lines) for name, lines in _of_memory(run).items()},
        breaks=full(dict.fromkeys(breaks)),
        findings={
            each.kind: (each.title, full(each.about.lines if each.about else ()))
            for each in reversed(run.analysis.findings)
        },
    )


class _Tally:
    """What lines add up to, by name."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, name: str, line: str, amount: float) -> None:
        if line and amount > 0:
            self._found[name][line] += amount

    def largest_first(self) -> dict[str, Lines]:
        return {
            name: tuple(sorted(own, key=lambda line: (-own[line], line)))
            for name, own in self._found.items()
        }


def _of_operators(run: Run) -> dict[str, Lines]:
    """Lines by operator family, most device time first.

    The backward pass has no lines: a line of its module's forward pass stands for it, that of the
    same operator where there is one, else the one that takes most time.
    """
    timeline = run.timeline
    events = timeline.events
    rows = np.flatnonzero((events.kind < DEVICE_KINDS) & (events.op >= 0))
    spent = np.bincount(
        events.op[rows], weights=events.duration_ns[rows], minlength=len(timeline.ops)
    )
    families, modules = _Tally(), _Tally()
    backward = []
    for number in np.flatnonzero(spent > 0).tolist():
        op, time = timeline.ops[number], float(spent[number])
        family, module = operator_family(getattr(op, "name", "")), getattr(op, "module", "")
        line = getattr(op, "line", "") or getattr(op, "site", "")
        families.add(family, line, time)
        if getattr(op, "phase", "") == "forward":
            modules.add(module, line, time)
            modules.add(f"{module} {family}", line, time)
        elif not line:
            backward.append((family, module, time))
    forward = modules.largest_first()
    for family, module, time in backward:
        for line in (forward.get(f"{module} {family}") or forward.get(module, ()))[:1]:
            families.add(family, line, time)
    return families.largest_first()


def _of_memory(run: Run) -> dict[str, Lines]:
    """Lines by category of what a step allocates, most bytes first."""
    found = _Tally()
    program = run.program
    for storage in program.storages if program else ():
        if program and 0 <= storage.born < len(program.ops):
            found.add(storage.category, program.ops[storage.born].line, storage.nbytes)
    return found.largest_first()
