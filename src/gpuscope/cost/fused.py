"""Kernels that Inductor generates: elementwise loops and reductions fused into one Triton kernel.

A fused kernel moves the bytes of its inputs and outputs once; casts and arithmetic cost
instructions of the same threads instead of another pass over memory. Triton draws four random
numbers to use one (`tl.rand`), and an online softmax takes two exponentials an element, so both
often cost more than the bytes. Shapes of blocks are Inductor's first choices
(torch/_inductor/runtime/triton_heuristics.py and choices.py): 1024 elements a block elementwise;
rows of up to 1024 in one piece by a block of one warp; longer rows by a block of 512 threads that
goes over them once for each pass, from the L2 cache where it is large enough; pieces of a split
reduction in blocks of 64 results, summed up by further kernels until each result is one.

Constants come from the calibration under "fused.*"; the defaults are those of an H200, from
benchmarks/compiled_kernels.py.
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
from gpuscope.program.inductor.lowering import split_count

_SPREAD = 0.25
"""Relative 80 % half-width of a generated kernel's time."""

_FLOOR_S = 0.1e-6
"""What a generated kernel takes beyond the shortest kernel."""

_BLOCK_ELEMENTS = 1024
"""Elements of a block of an elementwise kernel, and the longest row held in registers."""

_LANES, _SPECIAL_LANES = 128, 16
"""Instructions, and special functions, that a multiprocessor finishes in a clock (CUDA programming
guide, arithmetic throughput)."""

_SPECIAL = frozenset(
    ["exp", "log", "tanh", "sigmoid", "silu", "gelu", "erf", "sin", "cos", "rsqrt", "sqrt", "div",
     "_softmax", "_log_softmax", "pow", "silu_backward", "gelu_backward"]
)  # fmt: skip

_NAMED = 6
"""Operators in a kernel's name, at most."""


@kernel_model(FUSED)
def fused(work: Work) -> tuple[Kernel, ...]:
    """One generated kernel; several where a reduction is split."""
    args = work.op.args
    rows, columns = _count(args.get("rows")), _count(args.get("columns"))
    reduction = str(args.get("reduction", ""))
    names = args.get("operators")
    operators = tuple(map(str, names)) if isinstance(names, tuple) else ()
    read = _with_passes(work, reads(work), rows, columns, reduction)
    out = written(work)
    splits = _count(args.get("splits"))
    out += 4.0 * rows * splits * len(work.outputs) if splits > 1 else 0.0
    kind = _kind(reduction, columns, splits)
    grid, block = _grid(work, rows, columns, reduction, splits)
    get = work.constants.get
    main = kernel(
        work,
        Launch(
            _name(operators, kind), "fused", read.cold, read.hot, out,
            least_bytes=reads(work).total + out, items=float(rows * columns),
            cycles=_cycles(work, operators, kind), grid=grid, block=block,
            floor_s=get("fused.floor_s", _FLOOR_S),
            chain_s=get(f"fused.{kind}.chain_s", _CHAIN_S.get(kind, 0.0)),
            streaming=not reduction or kind == "per", dtype=first_dtype(work),
            family=f"fused.{kind}", note=f"{_count(args.get('count'))} operators in one kernel",
        ),
    )  # fmt: skip
    made = (_spread(main),)
    return (*made, *_finals(work, rows, splits)) if splits > 1 else made


_CHAIN_S: dict[str, float] = {}


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _kind(reduction: str, columns: int, splits: int) -> str:
    """What Inductor calls the kernel: "poi" elementwise, "per" rows in registers, "red" looped
    rows; here also "mix" (rows and columns at once), "split" (pieces), "outer" (columns)."""
    if not reduction:
        return "poi"
    if reduction == "both":
        return "mix"
    if splits > 1:
        return "split"
    if reduction == "outer":
        return "outer"
    return "per" if columns <= _BLOCK_ELEMENTS else "red"


_SHOWN = {"mix": "per", "split": "red", "outer": "red"}


def _name(operators: tuple[str, ...], kind: str) -> str:
    shown = _SHOWN.get(kind, kind)
    return "_".join(("triton", shown, "fused", *(name.lstrip("_") for name in operators[:_NAMED])))


def _cycles(work: Work, operators: tuple[str, ...], kind: str) -> float:
    """Clocks that one element keeps a multiprocessor busy."""
    get = work.constants.get
    special = sum(name in _SPECIAL for name in operators)
    access = len(work.inputs) + len(work.outputs)
    common = get("fused.access", 1.0) * access
    common += get("fused.operator", 1.0) * _count(work.op.args.get("count"))
    common += get(f"fused.{kind}.instructions", 0.0)
    cycles = common / _LANES + get("fused.special", 1.0) * special / _SPECIAL_LANES
    if work.op.args.get("random"):
        cycles += get("fused.random_cycles", 0.8)
    if "_log_softmax" in operators or "_softmax" in operators:
        cycles += get(f"fused.{kind}.softmax_cycles", 0.0)
    return cycles


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


def _grid(
    work: Work, rows: int, columns: int, reduction: str, splits: int
) -> tuple[int, int]:
    """Blocks, and threads of each."""
    if not reduction:
        return max(1, ceil(rows / min(_BLOCK_ELEMENTS, max(256, rows // 128)))), 128
    if reduction == "both":
        partial = [t for t in work.outputs if len(t.shape) == 2 and t.shape[1] == columns]
        return max(1, min((t.shape[0] for t in partial), default=8 * work.units)), 128
    if splits > 1:
        return max(1, ceil(rows * splits / 64)), 128
    if reduction == "outer":
        return max(1, ceil(rows / 16)), 128
    if columns > _BLOCK_ELEMENTS:
        return max(1, rows), 512
    return max(1, ceil(rows / max(1, _BLOCK_ELEMENTS // columns))), 32


def _spread(made: Kernel) -> Kernel:
    seconds = made.duration_s
    return replace(made, low_s=seconds / (1 + _SPREAD), high_s=seconds * (1 + _SPREAD))


def _finals(work: Work, results: int, splits: int) -> tuple[Kernel, ...]:
    """The kernels that add up the pieces of a split reduction, level by level."""
    made: list[Kernel] = []
    sums = max(1, len(work.outputs))
    while splits > 1:
        left = split_count(results, splits, inner=False)
        # The last level makes each result by itself; before, all are walked together.
        together = left > 1 or _count(work.op.args.get("finals")) == 1
        for _ in range(1 if together else sums):
            made.append(_final(work, results, splits, left, sums if together else 1))
        splits = left
    return tuple(made)


def _final(work: Work, results: int, splits: int, left: int, sums: int) -> Kernel:
    made = kernel(
        work,
        Launch(
            f"triton_{'red' if left > 1 else 'per'}_fused_partial_results", "fused", 0.0,
            4.0 * results * splits * sums, 4.0 * results * left * sums, least_bytes=0.0,
            grid=max(1, ceil(results * left / (64 if left > 1 else 16))), block=128,
            floor_s=work.constants.get("fused.floor_s", _FLOOR_S), dtype="float32",
            family="fused.final", note="adds up pieces of a split reduction",
        ),
    )  # fmt: skip
    return _spread(made)
