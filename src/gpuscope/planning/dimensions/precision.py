"""Precision of the products: bfloat16, or float8 in the linear layers of the blocks.

As Transformer Engine does it (`gpuscope.program.models.networks.cast_linear`): each operand is cast
by one kernel, attention, router and output layer stay in bfloat16. It rounds more: another recipe,
so it is tried only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuscope.document.text import Text
from gpuscope.hardware import Device
from gpuscope.planning.dimensions.registry import DIMENSIONS, Dimension, Weighed
from gpuscope.program.models.parallel.options import ParallelOptions

_FP8 = "fp8"


def _asked(options: ParallelOptions, value: str) -> ParallelOptions:
    return replace(options, software=replace(options.software, matmul="float8", cast_once=True))


def _score(weighed: Weighed, value: str, columns: Mapping[str, float]) -> Mapping[str, float]:
    """Products of the blocks at the peak of float8; a float8 copy of every weight is kept, whole.

    The copy is cast in a step's first micro-batch and serves all others (`cast_once`).
    """
    size, plan = weighed.size, weighed.plan
    ends = size.vocabulary * size.hidden * (1 if size.tied else 2)
    inside = size.active_parameters - ends
    head = size.vocabulary * size.hidden
    scores = 2 * size.heads * size.head * size.attended(weighed.seq)
    fast, slow = weighed.cluster.device.peak_flops_per_s(_FP8), columns["peak"]
    flops = inside + head + scores
    mixed = flops / (inside / fast + (head + scores) / slow)
    copies = (size.parameters - ends) / plan.pp / plan.tp / plan.ep
    return {"peak": mixed, "copies": copies}


def _lacks(device: Device, value: str) -> Text | None:
    if value == _FP8 and not device.supports(_FP8):
        return Text("{device} has no {dtype}.", device=device.name, dtype=_FP8)
    return None


DIMENSIONS.add(
    "precision",
    Dimension(name="precision", values=("bf16", _FP8), asked=_asked, score=_score, lacks=_lacks),
)
