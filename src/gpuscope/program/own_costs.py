"""What users say of their own operators, written into the program where it is captured.

Code is captured in a process of its own, so what it says of an operator (`gs.kernel_model`) goes
with the program, not with the process that costs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gpuscope.program.types import Op

OWN = "gpuscope own cost"
"""Argument of an operator that holds what was said: FLOPs, bytes (None: each tensor once),
efficiency (None: not stated), whether the matrix units compute."""

SAID: dict[str, Callable[[Op], tuple[float, float | None, float | None, bool]]] = {}
"""By operator: what it costs."""


def with_costs(ops: Iterable[Op]) -> list[Op]:
    """The operators, those of users with what they cost."""
    return [
        replace(op, args={**op.args, OWN: SAID[op.name](op)}) if op.name in SAID else op
        for op in ops
    ]
