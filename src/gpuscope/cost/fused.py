"""Kernels that Inductor generates: elementwise loops and reductions fused into one Triton kernel.

A fused kernel moves the bytes of its inputs and outputs once, at about the bandwidth that a copy
reaches: Triton's accesses are vectorized, and casts and arithmetic cost instructions of the same
thread instead of another pass over memory. Block sizes and the bound up to which a row is kept in
registers are Inductor's first choices (torch/_inductor/runtime/triton_heuristics.py and
choices.py): 1024 elements a block, rows of up to 1024 in one piece. Longer rows are read again for
every pass, from the L2 cache where it is large enough. A split reduction needs a second kernel.

No generated kernel was measured for these constants, so the interval is wide.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gpuscope.cost.bandwidth import (
    Launch,
    Reads,
    first_dtype,
    kernel,
    machine,
    missed_share,
    reads,
    written,
)
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.fusion import FUSED

_SPREAD = 0.4
"""Relative 80 % half-width of a generated kernel's time (a judgement)."""

_FLOOR_S = 0.5e-6
"""What a generated kernel takes beyond the shortest kernel, so that none is below about 2 us."""

_REDUCTION = 1.08
"""How much longer a reduction takes than a copy of its bytes: a judgement, from ATen's own row
reductions on an H200, which reach 0.9 to 0.95 of the copy bandwidth."""

_BLOCK_ELEMENTS = 1024
"""Elements of a block of an elementwise kernel, and the longest row held in registers."""

_SPLITS = 64
"""Partial results of a split reduction for each result, about."""

_COMMON_CYCLES = 1.0 / 128
"""One instruction of a lane: a multiprocessor issues 128 in a clock (CUDA programming guide)."""

_SPECIAL_CYCLES = 1.0 / 16
"""One of the special function units, 16 results in a clock (same source)."""

_RANDOM_CYCLES = 0.2
"""One number of Philox with ten rounds, about 25 instructions for each of its four numbers."""

_SPECIAL = frozenset(
    ["exp", "log", "tanh", "sigmoid", "silu", "gelu", "erf", "sin", "cos", "rsqrt", "sqrt", "div",
     "_softmax", "_log_softmax", "pow", "silu_backward", "gelu_backward"]
)  # fmt: skip

_NAMED = 6
"""Operators in a kernel's name, at most."""


@kernel_model(FUSED)
def fused(work: Work) -> tuple[Kernel, ...]:
    """One generated kernel; two where a reduction is split."""
    args = work.op.args
    rows, columns = _count(args.get("rows")), _count(args.get("columns"))
    reduction = str(args.get("reduction", ""))
    names = args.get("operators")
    operators = tuple(map(str, names)) if isinstance(names, tuple) else ()
    read = _with_passes(work, reads(work), rows, columns, reduction)
    out = written(work)
    split = _count(args.get("splits")) > 1
    main = kernel(
        work,
        Launch(
            _name(operators, reduction, columns), "fused", read.cold, read.hot, out,
            least_bytes=reads(work).total + out, items=float(rows * columns),
            cycles=_cycles(work, operators), grid=_grid(work, rows, columns, reduction, split),
            block=256 if reduction else 128, floor_s=_FLOOR_S, dtype=first_dtype(work),
            family="fused", note=f"{_count(args.get('count'))} operators in one kernel",
        ),
    )  # fmt: skip
    made = (_scaled(main, _REDUCTION if reduction else 1.0),)
    return (*made, _second(work, columns if reduction == "both" else rows)) if split else made


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _name(operators: tuple[str, ...], reduction: str, columns: int) -> str:
    kind = "poi"
    if reduction:
        kind = "per" if reduction == "inner" and columns <= _BLOCK_ELEMENTS else "red"
    return "_".join(("triton", kind, "fused", *(name.lstrip("_") for name in operators[:_NAMED])))


def _cycles(work: Work, operators: tuple[str, ...]) -> float:
    """Clocks that one element keeps a multiprocessor busy."""
    special = sum(name in _SPECIAL for name in operators)
    common = _count(work.op.args.get("count")) + len(work.inputs) + len(work.outputs)
    random = _RANDOM_CYCLES if work.op.args.get("random") else 0.0
    return common * _COMMON_CYCLES + special * _SPECIAL_CYCLES + random


def _with_passes(work: Work, read: Reads, rows: int, columns: int, reduction: str) -> Reads:
    """Bytes read when rows that do not fit in registers are read again in each pass."""
    again = _count(work.op.args.get("passes")) - 1
    if not again or not reduction or columns <= _BLOCK_ELEMENTS:
        return read
    m = machine(work)
    # A block of an outer reduction goes down a stripe of 64 columns.
    lines = 1 if reduction != "outer" else min(64, rows)
    blocks = max(1, rows // lines)
    missed = missed_share(m, read.total / blocks, blocks, resident=8)
    more = again * read.total
    return Reads(read.cold + more * missed, read.hot + more * (1.0 - missed))


def _grid(work: Work, rows: int, columns: int, reduction: str, split: bool) -> int:
    if not reduction:
        return max(1, ceil(rows / _BLOCK_ELEMENTS))
    if split or reduction == "both":
        return max(1, min(ceil(rows * columns / _BLOCK_ELEMENTS), 8 * work.units))
    if reduction == "inner":
        return max(1, ceil(rows / max(1, _BLOCK_ELEMENTS // columns)))
    return max(1, ceil(rows / 64))


def _scaled(made: Kernel, factor: float) -> Kernel:
    seconds = made.duration_s * factor
    return replace(
        made, duration_s=seconds, low_s=seconds / (1 + _SPREAD), high_s=seconds * (1 + _SPREAD),
        origin="estimated",
    )  # fmt: skip


def _second(work: Work, results: int) -> Kernel:
    """The kernel that adds up the partial results of a split reduction."""
    partial = 4.0 * results * _SPLITS
    made = kernel(
        work,
        Launch(
            "triton_per_fused_partial_results", "fused", 0.0, partial, 4.0 * results,
            least_bytes=0.0, grid=max(1, ceil(results / 16)), block=128, floor_s=_FLOOR_S,
            dtype="float32", family="fused", note="second kernel of a split reduction",
        ),
    )  # fmt: skip
    return _scaled(made, 1.0)
