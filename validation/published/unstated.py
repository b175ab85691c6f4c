"""What a row does not state, and how far the time of its step may be off for it.

For each such thing the times that its other values would give, over the predicted one, by
arithmetic: recomputation adds at most a forward pass of four; a pipeline of p stages, m
microbatches and v chunks a rank idles for (p - 1) / (m v) of its work; the FLOPs of a token grow
with its sequence by attention's part; a source that counts attention's causal half or all of it
prints another rate for the same time. Only float8 for 16 bits is read off published pairs of runs.
No prediction and no error plays a part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.models.parallel.size import TransformerSize
from published.rows import Row
from published.stacks import Stack

__all__ = ["Unstated", "half_widths", "of_job"]

FORWARD = 1 / 3
"""Of a step without recomputation: the forward pass, which full recomputation repeats."""

FLOAT8_GAIN = 1.3
"""Time in 16 bits over that in float8: 1.31 for MPT-3b (MosaicML), 1.29 for Llama 3.1 8B
(torchtitan), on H100s with all else alike."""

MICROBATCH = 4
"""Sequences of a microbatch at most, where a row does not state them."""

ALONE, BY_DEFAULT = 0.8, 0.6
"""Of the range (in logarithms) what holds 80 %: values spread evenly; half of the runs at the
software's own default and the others spread evenly, (0.8 - 0.5) / 0.5."""


@dataclass(frozen=True, slots=True)
class Unstated:
    """One thing that a row leaves out.

    Attributes:
        what: its name.
        low, high: least and most time of a step over the predicted one; at most and at least 1.
        default: the software's own file or recipe says what it takes by itself.
    """

    what: str
    low: float
    high: float
    default: bool


def half_widths(things: Iterable[Unstated]) -> tuple[float, float]:
    """What they add below and above a prediction, in logarithms, as independent uncertainties."""
    below = above = 0.0
    for each in things:
        part = BY_DEFAULT if each.default else ALONE
        below = math.hypot(below, part * math.log(1 / each.low))
        above = math.hypot(above, part * math.log(each.high))
    return below, above


def of_job(
    row: Row, stack: Stack, size: TransformerSize, taken: ParallelOptions
) -> tuple[Unstated, ...]:
    """What a row of a decoder leaves out.

    Args:
        row: as printed, before recipe and defaults completed it.
        stack: its software.
        size: the model.
        taken: what is predicted.
    """
    seq = row.seq or int(_told(row, stack).get("seq", size.context))
    return tuple(_of_job(row, stack, size, taken, seq))


def _told(row: Row, stack: Stack) -> dict[str, object]:
    recipe = stack.recipe(row)
    return {**stack.defaults, **(recipe.row if recipe is not None else {})}


def _of_job(
    row: Row, stack: Stack, size: TransformerSize, taken: ParallelOptions, seq: int
) -> Iterator[Unstated]:
    told = _told(row, stack)
    if row.recompute is None or "recompute" in stack.open:
        attention = _attention(size, seq) / _flops(size, seq)
        cost = {"none": 1.0, "selective": 1 + FORWARD * attention, "full": 1 + FORWARD}
        now = cost[taken.recompute]
        yield Unstated("recomputation", 1 / now, cost["full"] / now, "recompute" in told)
    if row.seq is None:
        now = _flops(size, seq)
        low, high = _flops(size, seq // 2) / now, _flops(size, 2 * seq) / now
        yield Unstated("sequence", low, high, "seq" in told)
    if row.precision is None:
        eight = taken.software.matmul == "float8"
        low, high = (1.0, FLOAT8_GAIN) if eight else (1 / FLOAT8_GAIN, 1.0)
        yield Unstated("precision", low, high, "precision" in told)
    if row.unit.startswith("TFLOP") and not stack.flops:
        causal = _flops(size, seq)
        yield Unstated("what it counts", causal / (causal + _attention(size, seq)), 1.0, False)
    if (taken.pp or 1) > 1:
        yield from _pipeline(row, size, taken, told)


def _pipeline(
    row: Row, size: TransformerSize, taken: ParallelOptions, told: dict[str, object]
) -> Iterator[Unstated]:
    stages, chunks = taken.pp or 1, taken.virtual or 1
    replicas = (taken.world or 1) // ((taken.tp or 1) * stages * (taken.cp or 1))
    count = max(1, (taken.global_batch or 1) // (replicas * (taken.microbatch or 1)))
    now = 1 + (stages - 1) / (count * chunks)
    if row.virtual is None and "nterleaved" not in (row.said or ""):
        most = max(1, size.layers // stages)
        low, high = 1 + (stages - 1) / (count * most), 1 + (stages - 1) / count
        yield Unstated("interleaving", low / now, high / now, "virtual" in told)
    if row.micro_batch is None:
        fewer = max(1, count * (taken.microbatch or 1) // MICROBATCH)
        high = 1 + (stages - 1) / (min(count, fewer) * chunks)
        yield Unstated("microbatch", 1.0, high / now, "micro_batch" in told)


def _attention(size: TransformerSize, seq: int) -> float:
    """FLOPs of a token's causal attention, forward and backward."""
    return 12.0 * size.heads * size.head * size.attended(seq)


def _flops(size: TransformerSize, seq: int) -> float:
    embedding = 0 if size.tied else size.vocabulary * size.hidden
    return 6.0 * (size.active_parameters - embedding) + _attention(size, seq)
