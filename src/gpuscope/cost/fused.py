"""Kernels that Inductor generates: elementwise loops and reductions fused into one Triton kernel.

A fused kernel moves the bytes of its inputs and outputs once; casts and arithmetic cost
instructions of the same threads instead of another pass over memory. Triton draws four random
numbers to use one (`tl.rand`), and an online softmax takes two exponentials an element, so both
often cost more than the bytes. Shapes of blocks are Inductor's first choices
(torch/_inductor/runtime/triton_heuristics.py and choices.py): 1024 elements a block elementwise;
rows of up to 1024 in one piece by a block of one warp; columns of 8 to 64 in tiles of 32 of them,
whose values are reduced across lanes and warps one by one; longer rows by a block of 512 threads
that goes over them once for each pass, from the L2 cache where it is large enough; pieces of a
split reduction in blocks of 64 results, summed up by further kernels until each result is one.

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
from gpuscope.document.text import Text
from gpuscope.program.types import FUSED

_SPREAD = 0.16
"""Relative 80 % half-width of a generated kernel's time: what 80 % of 78 small compiled functions
are within on an H200 (benchmarks/fit/compiled_points.py)."""

_BLOCK_ELEMENTS = 1024
"""Elements of a block of an elementwise kernel, and the longest row held in registers."""

_LANES = 128
"""Instructions that a multiprocessor finishes in a clock (CUDA programming guide, arithmetic
throughput)."""

_INSTRUCTIONS = {
    "gelu": 40,
    "gelu_backward": 51,
    "erf": 37,
    "tanh": 31,
    "tanh_backward": 3,
    "exp": 10,
    "log": 10,
    "sigmoid": 12,
    "silu": 13,
    "silu_backward": 16,
    "sin": 24,
    "cos": 24,
    "rsqrt": 9,
    "sqrt": 9,
    "div": 9,
    "pow": 3,
    "powf": 200,
    "_softmax": 12,
    "_softmax.elements": 9,
    "_log_softmax": 29,
    "_log_softmax.elements": 2,
    "_softmax_backward_data": 3,
    "_log_softmax_backward_data": 2,
    "native_batch_norm": 14,
    "cudnn_batch_norm": 14,
    "_native_batch_norm_legit": 14,
    "_batch_norm_with_update": 14,
    "native_batch_norm_backward": 14,
    "cudnn_batch_norm_backward": 14,
    "native_layer_norm": 6,
    "native_layer_norm_backward": 6,
    "native_group_norm": 8,
    "native_group_norm_backward": 8,
    "embedding": 4,
    "index": 6,
    "gather": 6,
    "constant_pad_nd": 16,
    "cat": 6,
    "max_pool2d_with_indices": 215,
    "max_pool2d_with_indices_backward": 220,
    "upsample_bilinear2d": 60,
    "upsample_bicubic2d": 240,
    "grid_sampler_2d": 80,
    "reflection_pad2d": 16,
    "replication_pad2d": 16,
    "reflection_pad2d_backward": 60,
    "avg_pool3d": 40,
    "avg_pool3d_backward": 40,
}
"""Instructions of an operator for each element (a special function counts as eight: 16 of them are
finished in a clock), beside loads and stores; 1 where absent. gelu, its gradient, pools and
log-softmax from benchmarks/compiled_kernels.py, the others from what their code does."""

_LEAST_INSTRUCTIONS = {"loop": 31.0, "transpose": 24.0, "triton": 45.0, "scatter": 250.0}
"""The fewest instructions of an element in XLA's kernels, by the way that makes them: its loops
have a thread do four elements in blocks of 128 threads (a bare fill writes 0.85e12 elements a
second on an H200, in any format), a scatter adds each with an atomic, a row of its Triton kernels
is one tile (0.27e12 to 0.95e12 a second). From the kernels of the 19 steps of
`validation/jax_workloads` on one H200."""


_CROWDED = 1.35
"""How much longer random numbers take in blocks of one warp that hold a row: 167 registers a thread
leave room for twelve warps of 64."""

_WELFORD = frozenset(
    ["native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"]
)

_ISSUED = 8.0
"""Exponent of the norm of memory and instructions where either alone sets the pace."""

_FINAL_S = {"sum": 0.5e-6, "welford": 1.1e-6}
"""What a kernel that adds up pieces takes beyond the shortest kernel."""

_ROUND, _ROUND_S = 2048, 1.2e-6
"""Values of a round of a block over a row, and its time, however few blocks there are."""

_TILE_COLUMNS, _TILE_THREADS = 32, 256
"""Of a short axis that is not the last, of the largest block (`_persistent_reduction_configs`)."""

_LEAST_TILE, _MOST_TILE = 8, 64
"""Values of a column that a block holds: fewer are written out one after the other
(`unroll_reductions_threshold`), more are walked (`should_use_persistent_reduction`)."""

_L1_BYTES = 192 * 1024
"""Rows of the resident blocks up to this stay in the multiprocessor for the next pass."""

_SECTOR_BYTES, _ROWS_ACROSS = 32, 2
"""What the L2 cache gives at once, and rows of a block where their values are apart: 8,192 blocks
of 256 threads for 16,384 rows of 1,024, recorded."""

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
    read, out = _with_sectors(work, read, out)
    splits = _count(args.get("splits"))
    out += 4.0 * rows * splits * len(work.outputs) if splits > 1 else 0.0
    kind = _kind(reduction, columns, splits, inductor="reductions" in args)
    grid, block = _grid(work, rows, columns, kind, splits)
    chain_s = _chain_s(work, kind, operators, rows, columns, splits)
    launch = Launch(
        str(args.get("kernel") or _name(operators, kind)),
        "fused",
        read.cold,
        read.hot,
        out,
        least_bytes=reads(work).total + out,
        items=float(rows * columns),
        cycles=_instructions(work, operators, rows, columns, kind) / _LANES,
        grid=grid,
        block=block,
        floor_s=work.constants.value("fused.floor_s"),
        chain_s=chain_s,
        streaming=True,
        dtype=first_dtype(work),
        family=f"fused.{kind}",
        note=Text("{count} operators in one kernel", count=_count(args.get("count"))),
    )
    made = (_spread(_timed(work, launch, kind, outer=reduction == "outer")),)
    return (*made, *_finals(work, rows, splits)) if splits > 1 else made


def _timed(work: Work, launch: Launch, kind: str, *, outer: bool) -> Kernel:
    """A kernel by what its blocks wait for: memory and instructions, or chains of loads."""
    if kind == "split" and not outer:
        return kernel(work, replace(launch, streaming=False))
    if kind not in ("mix", "split"):
        return kernel(work, launch)
    # Nothing hides these chains, unless instructions take longer still.
    chained = kernel(work, replace(launch, cycles=0.0, overlap=1.0, streaming=False))
    if kind == "mix":
        return chained
    issued = kernel(work, replace(launch, chain_s=0.0, overlap=_ISSUED))
    return max(chained, issued, key=lambda made: made.duration_s)


def _chain_s(
    work: Work, kind: str, operators: tuple[str, ...], rows: int, columns: int, splits: int
) -> float:
    """What one block takes by itself, beside its first loads."""
    if kind == "mix":
        return ceil(rows / _mixed_blocks(work, columns)) * work.constants.value("fused.row_s")
    if kind == "split" and work.op.args.get("reduction") == "outer":
        way = "welford" if _WELFORD.intersection(operators) else "sum"
        get = work.constants.value
        return get(f"fused.{way}.block_s") + get(f"fused.{way}.value_s") * columns / splits
    if kind == "split":
        return ceil(columns / splits / _ROUND) * _ROUND_S
    if kind == "red" and rows < work.units:
        looked_up = any("nll" in name or name in ("gather", "index") for name in operators)
        return ceil(columns / _ROUND) * _ROUND_S * (2 if looked_up else 1)
    return 0.0


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _kind(reduction: str, columns: int, splits: int, *, inductor: bool) -> str:
    """What Inductor calls the kernel: "poi" elementwise, "per" rows in registers, "red" looped
    rows; here also "mix" (rows and columns at once), "split" (pieces), "outer" (columns), "tile"
    (short ones, in registers)."""
    if not reduction:
        return "poi"
    if reduction == "both":
        return "mix"
    if splits > 1:
        return "split"
    if reduction == "outer" and (columns > _MOST_TILE or not inductor):
        return "outer"
    if reduction == "outer":
        return "tile" if columns >= _LEAST_TILE else "poi"
    return "per" if columns <= _BLOCK_ELEMENTS else "red"


_SHOWN = {"mix": "per", "tile": "per", "split": "red", "outer": "red"}


def _name(operators: tuple[str, ...], kind: str) -> str:
    shown = _SHOWN.get(kind, kind)
    return "_".join(("triton", shown, "fused", *(name.lstrip("_") for name in operators[:_NAMED])))


def _instructions(
    work: Work, operators: tuple[str, ...], rows: int, columns: int, kind: str
) -> float:
    """Instructions for each element of the loops."""
    get, args = work.constants.value, work.op.args
    computed = args.get("computed")
    if isinstance(computed, tuple):
        total = float(sum(_INSTRUCTIONS.get(name, 1) * times for name, times in computed))
    else:
        total = float(_count(args.get("count")) - len(operators))  # casts that repeat
        total += sum(_INSTRUCTIONS.get(name, 1) for name in operators)
    specs = (*work.inputs, *work.outputs)
    if work.op.args.get("beside"):  # each element is of one tensor among many
        return total + get("fused.loaded") * sum(s.numel for s in specs) / (rows * columns)
    along = columns > 1 and args.get("reduction") != "outer"
    for spec in specs:
        large = spec.numel * 8 >= rows * columns
        total += get("fused.loaded") if large else get("fused.broadcast")
        if large and along and columns * spec.itemsize % 16:
            total += get("fused.unaligned")
    if work.op.args.get("random"):
        crowded = _CROWDED if 1 < columns <= _BLOCK_ELEMENTS else 1.0
        total += get("fused.random") * crowded
    if kind == "tile":
        # Each value has an address, and goes through every level of a reduction, by itself; columns
        # are filled up to a power of two.
        total += get("fused.tile") + get("fused.tile_reduction") * _count(args.get("reductions"))
        total *= (1 << (columns - 1).bit_length()) / columns
    return max(total, _LEAST_INSTRUCTIONS.get(str(args.get("emitter", "")), 0.0))


def _with_passes(work: Work, read: Reads, rows: int, columns: int, reduction: str) -> Reads:
    """Bytes read when rows that do not fit in registers are read again in each pass."""
    again = _count(work.op.args.get("passes")) - 1
    if not again or not reduction or columns <= _BLOCK_ELEMENTS:
        return read
    if reduction == "inner" and 4 * read.total / max(rows, 1) <= _L1_BYTES:
        return read
    m = machine(work)
    # A block of an outer reduction goes down a stripe of 64 columns.
    lines = 1 if reduction != "outer" else min(64, rows)
    blocks = max(1, rows // lines)
    missed = missed_share(m, read.total / blocks, blocks, resident=8)
    anew = work.op.args.get("again_bytes")
    more = float(anew) if isinstance(anew, int) else again * read.total
    return Reads(read.cold + more * missed, read.hot + more * (1.0 - missed))


def _with_sectors(work: Work, read: Reads, out: float) -> tuple[Reads, float]:
    """Bytes with those of whole sectors, where a row's values are apart in memory.

    Such rows are no longer held in registers: a block goes over two of them (`ReductionHint`, and
    `reduction` in triton_heuristics.py) and takes two values of each sector of 32 bytes from the L2
    cache, anew in each pass. Writes end whole in the L2 cache.
    """
    found = work.op.args.get("across")
    if not isinstance(found, tuple) or not any(found):
        return read, out
    reads_across, writes_across = (float(n) for n in found)
    itemsize = max((t.itemsize for t in (*work.inputs, *work.outputs)), default=4)
    taken = max(1.0, _SECTOR_BYTES / (_ROWS_ACROSS * itemsize))
    more = reads_across * (taken * _count(work.op.args.get("passes")) - 1.0)
    more += writes_across * (taken - 1.0)
    return Reads(read.cold, read.hot + more), out


def _grid(work: Work, rows: int, columns: int, kind: str, splits: int) -> tuple[int, int]:
    """Blocks, and threads of each."""
    if kind == "poi":
        return max(1, ceil(rows / min(_BLOCK_ELEMENTS, max(256, rows // 128)))), 128
    if kind == "mix":
        return _mixed_blocks(work, columns), 128
    if kind == "split" and work.op.args.get("reduction") == "inner":
        return rows * splits, 512
    if kind == "split":
        return max(1, ceil(rows * splits / 64)), 128
    if kind == "tile":
        return max(1, ceil(rows / _TILE_COLUMNS)), _TILE_THREADS
    if kind == "outer":
        return max(1, ceil(rows / 16)), 128
    across = work.op.args.get("across")
    if isinstance(across, tuple) and any(across):
        return max(1, ceil(rows / _ROWS_ACROSS)), 256
    if columns > _BLOCK_ELEMENTS:
        return max(1, rows), 512
    return max(1, ceil(rows / max(1, _BLOCK_ELEMENTS // columns))), 32


def _mixed_blocks(work: Work, columns: int) -> int:
    """Blocks of a kernel that reduces rows and columns at once: rows of its partial sums."""
    partial = [t for t in work.outputs if len(t.shape) == 2 and t.shape[1] == columns]
    return max(1, min((t.shape[0] for t in partial), default=8 * work.units))


def _spread(made: Kernel) -> Kernel:
    seconds = made.duration_s
    return replace(made, low_s=seconds / (1 + _SPREAD), high_s=seconds * (1 + _SPREAD))


def _finals(work: Work, results: int, splits: int) -> tuple[Kernel, ...]:
    """The kernels that add up the pieces of a split reduction, level by level."""
    from gpuscope.program.inductor.splitting import split_count

    made: list[Kernel] = []
    sums = max(1, len(work.outputs))
    variance = _count(work.op.args.get("finals")) == 1 and sums > 1
    while splits > 1:
        left = split_count(results, splits, inner=not variance)
        # The last level makes each result by itself; before, all are walked together.
        together = left > 1 or variance
        for _ in range(1 if together else sums):
            made.append(_final(work, results, splits, left, sums if together else 1, variance))
        splits = left
    return tuple(made)


def _final(work: Work, results: int, splits: int, left: int, sums: int, variance: bool) -> Kernel:
    made = kernel(
        work,
        Launch(
            f"triton_{'red' if left > 1 else 'per'}_fused_partial_results",
            "fused",
            0.0,
            4.0 * results * splits * sums,
            4.0 * results * left * sums,
            least_bytes=0.0,
            grid=max(1, ceil(results * left / (64 if left > 1 else 16))),
            block=128,
            floor_s=_FINAL_S["welford" if variance else "sum"],
            dtype="float32",
            family="fused.final",
            note=Text("adds up pieces of a split reduction"),
        ),
    )
    return _spread(made)
