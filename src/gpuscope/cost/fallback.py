"""Operators without a model of their own: each input read once, each output written once."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gpuscope.cost.bandwidth import Launch, elements, first_dtype, kernel, reads, written
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text

NOTE = Text("no model: taken as bandwidth-bound")

_INTERVAL = 4.0
"""A guess may be this many times too long or too short (a judgement)."""


def bandwidth_bound(work: Work) -> tuple[Kernel, ...]:
    """One kernel that moves the operator's bytes, with a wide interval."""
    if not work.inputs and not work.outputs:
        return ()
    count = elements((*work.outputs, *work.inputs))
    if count == 0:
        return ()
    read = reads(work)
    made = kernel(
        work,
        Launch(
            work.op.name.rpartition("::")[2],
            "other",
            read.cold,
            read.hot,
            written(work),
            grid=max(1, ceil(count / 512)),
            dtype=first_dtype(work),
            note=NOTE,
        ),
    )
    low, high = made.duration_s / _INTERVAL, made.duration_s * _INTERVAL
    return (replace(made, low_s=low, high_s=high, origin="estimated", limiter="unknown"),)
